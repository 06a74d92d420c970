import { get } from "./api.js";
import { count, duration, h, put } from "./dom.js";

export const title = "Contention";
export const kinds = ["tick"];
const found = {};
const NUMBERS = ["Grants", "Waited p50", "Waited p95", "Waited p99", "Held p50", "Held p95", "Held p99"];

export function show(main) {
  found.body = h("tbody");
  put(main, h("div", { class: "head" }, h("h1", {}, "Contention"), h("span", { class: "soft" }, "the last hour, by pattern of names: this service, and programs with history.install(locks)")),
    h("section", { class: "card flush" }, h("table", { class: "data" }, h("caption", { class: "visually-hidden" }, "Contention"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Names"), NUMBERS.map((text) => h("th", { scope: "col", class: "num" }, text)))), found.body)));
}

export async function refresh() {
  const stats = await get("stats", { minutes: 60 });
  put(found.body, stats.templates.length ? stats.templates.map((each) => h("tr", { "data-name": each.template },
    h("td", { "data-cell": "name" }, h("a", { href: `locks?q=${encodeURIComponent(each.template.split("#")[0])}` }, each.template)),
    [count(each.wait.n), ...["p50", "p95", "p99"].map((word) => duration(each.wait[word])), ...["p50", "p95", "p99"].map((word) => duration(each.hold[word]))]
      .map((text, at) => h("td", { class: "num", "data-label": NUMBERS[at] }, text))))
    : h("tr", {}, h("td", { class: "empty", colspan: 8 }, "Nothing in the history of the last hour.")));
}
