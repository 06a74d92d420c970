import { get } from "./api.js";
import { h, pill, put } from "./dom.js";

export const title = "Nodes";
export const kinds = [];
export const onDemand = true; // each look examines every node
const found = {};

export function show(main, me, refresh) {
  found.list = h("section", {});
  put(main, h("div", { class: "head" }, h("h1", { class: "grow" }, "Nodes"), h("button", { type: "button", onclick: refresh }, "Examine again")), found.list);
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}. `;
}

export async function refresh() {
  const answer = await get("nodes");
  put(found.list, answer.nodes.map((node) => h("div", { class: "card", "data-name": node.name },
    h("div", { class: "head" }, h("h2", { class: "mono" }, node.name), node.up ? pill("held") : h("span", { class: "pill lost" }, "in trouble"), h("span", { class: "soft" }, `namespace ${answer.namespace}`)),
    node.findings.length ? node.findings.map((each) => h("div", { class: "finding", "data-severity": each.severity },
      h("b", {}, `${each.severity} ${each.id}`), h("p", {}, each.seen ? sentence(each.seen) : "", sentence(each.means)), h("p", { class: "soft" }, sentence(each.change))))
      : h("p", { class: "soft" }, "Nothing is wrong or unusual."))));
  const word = found.list.querySelector(".pill.held");
  if (word) word.textContent = "answers";
}
