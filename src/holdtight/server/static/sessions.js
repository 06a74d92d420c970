import { get, post } from "./api.js";
import { askWhy } from "./dialog.js";
import { count, duration, h, moment, pager, put, timeLeft } from "./dom.js";

export const title = "Sessions";
export const kinds = ["tick", "session_opened", "session_closed"];
const found = {};
let admin = false;
let again;

export function show(main, me, refresh) {
  admin = me.role === "admin";
  again = refresh;
  found.body = h("tbody");
  found.total = h("span", { class: "soft" });
  found.pager = pager(refresh);
  put(main, h("div", { class: "head" }, h("h1", {}, "Sessions"), found.total),
    h("section", { class: "card flush" }, h("table", { class: "data" }, h("caption", { class: "visually-hidden" }, "Sessions"), h("thead", {}, h("tr", {}, HEADS.map((text) => h("th", { scope: "col" }, text)), admin ? h("th", {}, h("span", { class: "visually-hidden" }, "Act")) : null)), found.body), found.pager.node));
}

function close(each) {
  askWhy({
    title: "Close the session",
    text: `All that ${each.label ?? each.host ?? each.id} holds by way of this session is released: ${count(each.leases)} ${each.leases === 1 ? "lock" : "locks"}. Its client learns of it with its next beat.`,
    button: "Close now",
    act: async (reason) => {
      const done = await post("v1/force-close", { id: each.id, reason });
      await again();
      return `Closed. ${count(done.released)} released.`;
    },
  });
}

const HEADS = ["Session", "Client", "Leases", "Waiting", "Opened", "Time left"];

function cell(at, ...children) {
  return h("td", { "data-label": HEADS[at] }, h("div", {}, children));
}

export async function refresh() {
  const answer = await get("sessions", { limit: 50, ...found.pager.query() });
  found.pager.turned(answer.next);
  found.total.textContent = answer.total === 1 ? "1 open" : `${count(answer.total)} open`;
  put(found.body, answer.sessions.length ? answer.sessions.map((each) => h("tr", { "data-name": each.id },
    cell(0, h("span", {}, each.label ?? "–"), h("span", { class: "sub mono" }, each.id)),
    cell(1, each.host ?? "–", h("span", { class: "sub" }, `${each.pid === null ? "" : `pid ${each.pid} · `}token ${each.token}`)),
    cell(2, count(each.leases), h("span", { class: "sub mono" }, each.names.join(", ") + (each.leases > each.names.length ? ", …" : ""))),
    cell(3, count(each.waiting)),
    cell(4, moment(each.opened)),
    cell(5, timeLeft(each.id, each.left, each.ttl), h("span", { class: "sub" }, `of ${duration(each.ttl)}`)),
    admin ? h("td", {}, h("button", { type: "button", "data-key": each.id, onclick: () => close(each) }, "Close")) : null))
    : h("tr", {}, h("td", { class: "empty", colspan: 7 }, "No session is open.")));
}
