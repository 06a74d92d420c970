import { get } from "./api.js";
import { count, duration, h, lockLink, put, s } from "./dom.js";

export const title = "Overview";
const found = {};

export function show(main) {
  found.tiles = h("section", { class: "tiles", "aria-label": "Now" });
  found.plots = h("section", { class: "two" });
  found.lists = h("section", { class: "two" });
  found.where = h("span", { class: "soft" });
  put(main, h("div", { class: "head" }, h("h1", {}, "Overview"), found.where), found.tiles, found.plots, found.lists);
}

function tile(stat, value, text, kind) {
  return h("div", { class: `card tile ${kind}`, "data-stat": stat }, h("b", {}, value), h("span", {}, text));
}

function plot(title, lines, names) {
  const most = Math.max(1e-9, ...lines.flat().map((value) => value ?? 0));
  const step = 600 / Math.max(1, lines[0].length - 1);
  const path = (line) => line.map((value, at) => `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(100 - 90 * (value ?? 0) / most).toFixed(1)}`).join("");
  const drawn = lines.map((line, at) => s("path", { class: `l${at + 1}`, d: path(line) }));
  const area = lines.length === 1 ? s("path", { class: "fill", d: `${path(lines[0])}L600 100L0 100Z` }) : null;
  const text = names ? duration(most) : count(Math.round(most));
  return h("figure", { class: "card" }, h("h2", {}, title), h("div", { class: "axes" }, h("span", {}, text)),
    s("svg", { class: "plot", viewBox: "0 0 600 102", preserveAspectRatio: "none", role: "img", "aria-label": `${title}, up to ${text}` },
      [10, 55, 100].map((y) => s("line", { class: "grid", x1: 0, x2: 600, y1: y, y2: y })), area, drawn),
    h("div", { class: "axes" }, h("span", {}, "an hour ago"), h("span", {}, "now")),
    names ? h("div", { class: "legend" }, names.map((name, at) => h("span", { class: `k${at + 1}` }, h("i"), name))) : null);
}

function list(title, rows, empty) {
  return h("section", { class: "card" }, h("h2", {}, title), rows.length
    ? h("ul", { class: "list" }, rows.map(([name, text]) => h("li", {}, lockLink(name, { class: "grow mono" }), h("span", { class: "soft" }, text))))
    : h("p", { class: "soft" }, empty));
}

export async function refresh() {
  const [stats, queues, oldest, nodes] = await Promise.all([
    get("stats", { minutes: 60 }),
    get("locks", { state: "waiting", sort: "waiting", limit: 5 }),
    get("locks", { state: "held", sort: "age", limit: 5 }),
    found.namespace ? null : get("nodes"),
  ]);
  if (nodes) {
    found.namespace = nodes.namespace;
    found.where.textContent = `${nodes.nodes[0].name} · ${nodes.namespace}`;
  }
  put(found.tiles,
    tile("held", count(stats.held), "held", ""),
    tile("waiting", count(stats.waiting), "waiting", stats.waiting ? "warn" : ""),
    tile("lost", count(stats.lost), "lost in the last hour", stats.lost ? "bad" : ""),
    tile("rate", stats.rate === null ? "–" : stats.rate < 10 ? stats.rate.toFixed(1) : count(Math.round(stats.rate)), "grants per second", ""));
  const minutes = stats.minutes;
  put(found.plots,
    minutes.length > 1 ? plot("Grants per minute", [minutes.map((each) => each.granted)]) : null,
    minutes.length > 1 ? plot("Time waited", ["p50", "p95", "p99"].map((word) => minutes.map((each) => each[word])), ["p50", "p95", "p99"]) : null);
  put(found.lists,
    list("Longest queues", queues.locks.map((row) => [row.name, `${count(row.waiting)} waiting, ${duration(row.oldest_wait)}`]), "Nobody waits."),
    list("Held longest", oldest.locks.map((row) => [row.name, duration(row.age)]), "Nothing is held."));
}
