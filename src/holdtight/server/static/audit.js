import { get } from "./api.js";
import { h, lockLink, moment, put, who } from "./dom.js";

export const title = "Audit";
export const kinds = ["forced", "session_closed"];
const found = {};

export function show(main, me, refresh) {
  found.list = h("ul", { class: "list" });
  found.more = h("button", { type: "button" }, "Next");
  found.query = new URLSearchParams(location.search);
  found.more.addEventListener("click", () => {
    found.query.set("cursor", found.cursor);
    history.pushState(null, "", `?${found.query}`);
    refresh();
  });
  put(main, h("div", { class: "head" }, h("h1", {}, "Audit"), h("span", { class: "soft" }, "what operators did, newest first")),
    h("section", { class: "card" }, found.list), h("div", { class: "pager" }, h("span", { class: "grow" }), found.more));
}

export async function refresh() {
  const page = await get("audit", Object.fromEntries(found.query));
  found.cursor = page.next;
  found.more.parentElement.hidden = !page.next;
  put(found.list, page.records.length ? page.records.map((each) => h("li", { "data-audit": each.id },
    h("div", { class: "grow" }, h("span", { class: "pill forced" }, "forced"), " ", lockLink(each.name, { class: "mono" }),
      h("span", { class: "sub" }, `taken from ${each.holders.map(who).join(", ") || "nobody"} · fence ${each.fence}`),
      h("span", {}, each.reason)),
    h("div", { class: "right" }, h("span", {}, each.by), h("span", { class: "sub" }, moment(each.at)), each.host ? h("span", { class: "sub" }, each.host) : null)))
    : h("li", { class: "soft" }, "No operator has done anything."));
}
