import { get } from "./api.js";
import { count, duration, h, put } from "./dom.js";

export const title = "Contention";
export const kinds = ["tick"];
const found = {};

export function show(main) {
  found.body = h("tbody");
  const numbers = ["Grants", "Waited p50", "p95", "p99", "Held p50", "p95", "p99"];
  put(main, h("div", { class: "head" }, h("h1", {}, "Contention"), h("span", { class: "soft" }, "the last hour, by pattern of names; sampled by this service")),
    h("section", { class: "card flush" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Names"), numbers.map((text) => h("th", { scope: "col", class: "num" }, text)))), found.body)));
}

export async function refresh() {
  const stats = await get("stats", { minutes: 60 });
  put(found.body, stats.templates.length ? stats.templates.map((each) => h("tr", { "data-name": each.template },
    h("td", { "data-cell": "name" }, h("a", { href: `locks?q=${encodeURIComponent(each.template.split("#")[0])}` }, each.template)),
    h("td", { class: "num" }, count(each.wait.n)),
    ["p50", "p95", "p99"].map((word) => h("td", { class: "num" }, duration(each.wait[word]))),
    ["p50", "p95", "p99"].map((word) => h("td", { class: "num" }, duration(each.hold[word])))))
    : h("tr", {}, h("td", { class: "empty", colspan: 8 }, "No lock was taken by way of this service in the last hour.")));
}
