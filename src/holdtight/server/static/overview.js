import { get } from "./api.js";
import { count, duration, h, hangs, lockLink, put, s, templateOf, usual, where, who } from "./dom.js";

export const title = "Overview";
export const kinds = ["tick"];
const found = {};

export function show(main) {
  found.tiles = h("section", { class: "tiles", "aria-label": "Now" });
  found.plots = h("section", { class: "two" });
  found.lists = h("section", { class: "two" });
  found.where = h("span", { class: "soft" });
  found.trouble = h("section", { class: "card", "aria-label": "What needs a look" });
  found.said = h("p", { class: "visually-hidden", role: "status" });
  put(main, h("div", { class: "head" }, h("h1", {}, "Overview"), found.where), found.trouble, found.said, found.tiles, found.plots, found.lists);
}

function tile(stat, value, text, kind) {
  return h("div", { class: `card tile ${kind}`, "data-stat": stat }, h("b", {}, value), h("span", {}, text));
}

function plot(title, lines, names) {
  const most = Math.max(1e-9, ...lines.flat().map((value) => value ?? 0));
  const step = 600 / Math.max(1, lines[0].length - 1);
  const height = (value) => (100 - 90 * value / most).toFixed(1);
  // Minutes without a value leave a gap; one alone is a short line, the last one too.
  const spot = (at, value) => `${(at * step).toFixed(1)} ${height(value)}`;
  const begin = (at, value) => `M${spot(Math.min(at, lines[0].length - 1.5), value)}h${(step / 2).toFixed(1)}`;
  const path = (line) => line.map((value, at) => value === null ? "" : at && line[at - 1] !== null ? `L${spot(at, value)}` : begin(at, value)).join("");
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
  return h("section", { class: "card", "aria-label": title }, h("h2", {}, title), rows.length
    ? h("ul", { class: "list" }, rows.map(([name, text, row]) => h("li", {}, h("span", { class: "grow" }, lockLink(name, { class: "mono" }), row.holders.length ? h("span", { class: "sub" }, [who(row.holders[0]), where(row.holders[0])].filter(Boolean).join(" \u00b7 ")) : null), h("span", { class: "soft" }, text))))
    : h("p", { class: "soft" }, empty));
}

// The ten-second answer: which lock hangs, who holds it, and where to go from here.
function trouble(stats, stuck, graph) {
  const times = new Map(stats.templates.map((each) => [each.template, each.hold]));
  const rows = graph.cycles.map((cycle) => h("li", { "data-trouble": "deadlock" }, h("span", { class: "pill lost" }, "deadlock"),
    h("span", { class: "grow" }, `${cycle.filter((id) => id.startsWith("lock:")).map((id) => id.slice(5)).join(", ")}: their holders wait for each other.`), h("a", { href: "graph" }, "See who waits for whom")));
  for (const row of stuck) {
    const hold = times.get(templateOf(row.name));
    if (!row.held || !hangs(row.age ?? 0, hold)) continue;
    const first = row.holders[0];
    rows.push(h("li", { "data-trouble": row.name }, h("span", { class: "pill waiting" }, "hangs"),
      h("span", { class: "grow" }, lockLink(row.name, { class: "mono" }), ` has been held for ${duration(row.age)} by `, h("b", {}, who(first)), where(first) ? ` (${where(first)})` : "",
        `; ${count(row.waiting)} wait${row.waiting === 1 ? "s" : ""}, the first for ${duration(row.oldest_wait)}. ${usual(hold)}`), lockLink(row.name, {}, "What to do")));
  }
  return rows.length ? [h("h2", {}, "Needs a look"), h("ul", { class: "list" }, rows)]
    : h("p", { class: "fine" }, stats.waiting ? "Nothing hangs: every lock that somebody waits for is held for no longer than usual." : "Nothing hangs: nobody waits for a lock.");
}

export async function refresh() {
  const [stats, queues, oldest, stuck, graph, nodes] = await Promise.all([
    get("stats", { minutes: 60 }),
    get("locks", { state: "waiting", sort: "waiting", limit: 5 }),
    get("locks", { state: "held", sort: "age", limit: 5 }),
    get("locks", { state: "waiting", sort: "age", limit: 5 }),
    get("graph"),
    found.namespace ? null : get("nodes"),
  ]);
  if (nodes) {
    found.namespace = nodes.namespace;
    found.where.textContent = `${nodes.nodes[0].name} · ${nodes.namespace}`;
  }
  put(found.trouble, trouble(stats, stuck.locks, graph));
  const names = [...found.trouble.querySelectorAll("[data-trouble]")].map((each) => each.dataset.trouble);
  const said = names.length ? `Needs a look: ${names.join(", ")}.` : "Nothing hangs.";
  if (found.said.textContent !== said) found.said.textContent = said; // spoken once, however often the page is drawn
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
    list("Longest queues", queues.locks.map((row) => [row.name, `${count(row.waiting)} waiting, ${duration(row.oldest_wait)}`, row]), "Nobody waits."),
    list("Held longest", oldest.locks.map((row) => [row.name, duration(row.age), row]), "Nothing is held."));
}
