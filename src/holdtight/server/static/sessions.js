import { get, post } from "./api.js";
import { count, duration, h, moment, put, timeLeft } from "./dom.js";

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
  const heads = ["Session", "Client", "Leases", "Waiting", "Opened", "Time left"];
  put(main, h("div", { class: "head" }, h("h1", {}, "Sessions"), found.total),
    h("section", { class: "card flush" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)), admin ? h("th", {}, h("span", { class: "visually-hidden" }, "Act")) : null)), found.body)));
}

async function close(id) {
  const reason = prompt("Close this session and release what it holds. Why?");
  if (!reason?.trim()) return;
  await post("v1/force-close", { id, reason: reason.trim() });
  again();
}

export async function refresh() {
  const answer = await get("sessions");
  found.total.textContent = answer.total === 1 ? "1 open" : `${count(answer.total)} open`;
  put(found.body, answer.sessions.length ? answer.sessions.map((each) => h("tr", { "data-name": each.id },
    h("td", {}, h("span", {}, each.label ?? "–"), h("span", { class: "sub mono" }, each.id)),
    h("td", {}, each.host ?? "–", h("span", { class: "sub" }, `${each.pid === null ? "" : `pid ${each.pid} · `}token ${each.token}`)),
    h("td", {}, count(each.leases), h("span", { class: "sub mono" }, each.names.join(", "))),
    h("td", {}, count(each.waiting)),
    h("td", {}, moment(each.opened)),
    h("td", {}, timeLeft(each.id, each.left), h("span", { class: "sub" }, `of ${duration(each.ttl)}`)),
    admin ? h("td", {}, h("button", { type: "button", onclick: () => close(each.id) }, "Close")) : null))
    : h("tr", {}, h("td", { class: "empty", colspan: 7 }, "No session is open.")));
}
