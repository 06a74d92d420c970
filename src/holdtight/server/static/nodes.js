import { get } from "./api.js";
import { h, pill, put } from "./dom.js";

export const title = "Nodes";
export const kinds = [];
const found = {};

export function show(main, me, refresh) {
  found.list = h("section", {});
  put(main, h("div", { class: "head" }, h("h1", { class: "grow" }, "Nodes"), h("button", { type: "button", onclick: refresh }, "Examine again")), found.list);
}

export async function refresh() {
  const answer = await get("nodes");
  put(found.list, answer.nodes.map((node) => h("div", { class: "card", "data-name": node.name },
    h("div", { class: "head" }, h("h1", { class: "mono" }, node.name), node.up ? pill("held") : h("span", { class: "pill lost" }, "in trouble"), h("span", { class: "soft" }, `namespace ${answer.namespace}`)),
    node.findings.length ? node.findings.map((each) => h("div", { class: "finding", "data-severity": each.severity },
      h("b", {}, `${each.severity} ${each.id}`), h("p", {}, each.seen ? `${each.seen}. ` : "", `${each.means}.`), h("p", { class: "soft" }, `${each.change}.`)))
      : h("p", { class: "soft" }, "Nothing is wrong or unusual."))));
  const word = found.list.querySelector(".pill.held");
  if (word) word.textContent = "answers";
}
