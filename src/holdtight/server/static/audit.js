import { get } from "./api.js";
import { h, lockLink, moment, pager, put, who } from "./dom.js";

export const title = "Audit";
export const kinds = ["forced", "session_closed"];
const HEADS = ["When", "Who", "What", "Lock", "Reason"];
const found = {};

export function show(main, me, refresh) {
  found.body = h("tbody");
  found.pager = pager(refresh);
  put(main, h("div", { class: "head" }, h("h1", {}, "Audit"), h("span", { class: "soft" }, "what operators did, newest first")),
    h("section", { class: "card flush" }, h("table", { class: "data" }, h("caption", { class: "visually-hidden" }, "Audit"),
      h("thead", {}, h("tr", {}, HEADS.map((text) => h("th", { scope: "col" }, text)))), found.body), found.pager.node));
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
  const page = await get("audit", found.pager.query());
  found.pager.turned(page.next);
  put(found.body, page.records.length ? page.records.map((each) => h("tr", { "data-audit": each.id },
    cell(0, moment(each.at)),
    cell(1, each.by ?? "\u2013", each.host ? h("span", { class: "sub" }, each.host) : null),
    cell(2, what(each), each.fence ? h("span", { class: "sub mono" }, `fence ${each.fence}`) : null),
    cell(3, each.name ? lockLink(each.name, { class: "mono" }) : "\u2013"),
    cell(4, each.reason ?? "\u2013")))
    : h("tr", {}, h("td", { class: "empty", colspan: HEADS.length }, "No operator has done anything.")));
}
