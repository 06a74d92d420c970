import { get } from "./api.js";
import { h, lockLink, moment, put, who } from "./dom.js";

export const title = "Audit";
export const kinds = ["forced", "session_closed"];
const HEADS = ["When", "Who", "What", "Lock", "Reason"];
const found = {};

export function show(main, me, refresh) {
  found.body = h("tbody");
  found.first = h("button", { type: "button" }, "First");
  found.next = h("button", { type: "button" }, "Next");
  found.query = new URLSearchParams(location.search);

  function turn(cursor) {
    if (cursor) found.query.set("cursor", cursor);
    else found.query.delete("cursor");
    const text = found.query.toString();
    history.pushState(null, "", text ? `?${text}` : location.pathname);
    refresh();
  }

  found.first.addEventListener("click", () => turn(null));
  found.next.addEventListener("click", () => turn(found.cursor));
  addEventListener("popstate", () => {
    found.query = new URLSearchParams(location.search);
    refresh();
  });
  put(main, h("div", { class: "head" }, h("h1", {}, "Audit"), h("span", { class: "soft" }, "what operators did, newest first")),
    h("section", { class: "card flush" }, h("table", { class: "data" }, h("caption", { class: "visually-hidden" }, "Audit"),
      h("thead", {}, h("tr", {}, HEADS.map((text) => h("th", { scope: "col" }, text)))), found.body),
    h("div", { class: "pager" }, h("span", { class: "grow" }), found.first, found.next)));
}

function cell(at, ...children) {
  return h("td", { "data-label": HEADS[at] }, h("div", {}, children));
}

function what(each) {
  if (each.action === "bless") return "vouched for a node";
  const from = each.holders.map(who).join(", ");
  return each.action === "force_close" ? `closed the session of ${from || "nobody"}` : `took it from ${from || "nobody"}`;
}

export async function refresh() {
  const page = await get("audit", Object.fromEntries(found.query));
  found.cursor = page.next;
  found.next.hidden = !page.next;
  found.first.hidden = !found.query.get("cursor");
  found.first.parentElement.hidden = found.next.hidden && found.first.hidden;
  put(found.body, page.records.length ? page.records.map((each) => h("tr", { "data-audit": each.id },
    cell(0, moment(each.at)),
    cell(1, each.by ?? "\u2013", each.host ? h("span", { class: "sub" }, each.host) : null),
    cell(2, what(each), each.fence ? h("span", { class: "sub mono" }, `fence ${each.fence}`) : null),
    cell(3, each.name ? lockLink(each.name, { class: "mono" }) : "\u2013"),
    cell(4, each.reason ?? "\u2013")))
    : h("tr", {}, h("td", { class: "empty", colspan: HEADS.length }, "No operator has done anything.")));
}
