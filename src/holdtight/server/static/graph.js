import { get } from "./api.js";
import { h, lockLink, put, s } from "./dom.js";

export const title = "Wait-for graph";
export const kinds = ["tick"];
const WIDTH = 1180, ROW = 56, BOX = 300, HEIGHT = 34;
const found = {};

export function show(main) {
  found.note = h("p", { class: "note", hidden: true, role: "alert" });
  found.drawing = h("div", { class: "scroll" });
  found.list = h("ul", { class: "list" });
  put(main, h("div", { class: "head" }, h("h1", {}, "Who waits for whom")), found.note,
    h("section", { class: "card", "data-graph": true }, found.drawing), h("section", { class: "card" }, h("h2", {}, "As text"), found.list));
  found.legend = h("p", { class: "soft sub", hidden: true }, "Dashed: by way of a session of the lock service, whose other requests go on.");
  found.drawing.after(found.legend);
}

function short(text) {
  return text.length > 38 ? `${text.slice(0, 37)}…` : text;
}

// Waiters left, locks in the middle, holders right; the members of a cycle on a circle.
function place(graph) {
  const spots = new Map();
  const around = graph.cycles.flat();
  const waits = new Set(graph.edges.filter((edge) => edge.type === "waits_for").map((edge) => edge.from));
  const columns = [[], [], []];
  for (const node of graph.nodes) {
    if (around.includes(node.id)) continue;
    columns[node.type === "lock" ? 1 : waits.has(node.id) ? 0 : 2].push(node);
  }
  let top = 0;
  if (around.length) {
    const radius = Math.max(110, around.length * 26);
    top = radius * 2 + 90;
    around.forEach((id, at) => {
      const angle = (2 * Math.PI * at) / around.length - Math.PI / 2;
      spots.set(id, [WIDTH / 2 + Math.cos(angle) * radius * 1.7, 30 + radius + Math.sin(angle) * radius]);
    });
  }
  columns.forEach((column, at) => column.forEach((node, row) => spots.set(node.id, [BOX / 2 + 4 + at * ((WIDTH - BOX - 8) / 2), top + 30 + row * ROW])));
  const most = Math.max(...columns.map((column) => column.length));
  return [spots, top + Math.max(most, around.length ? 0 : 1) * ROW + 20];
}

function line([x1, y1], [x2, y2]) {
  const bend = (x2 - x1) / 2;
  if (Math.abs(x2 - x1) > BOX * 0.9) {
    const side = Math.sign(bend);
    const from = x1 + side * BOX / 2, to = x2 - side * (BOX / 2 + 6);
    return `M${from} ${y1}C${from + bend / 3} ${y1} ${to - bend / 3} ${y2} ${to} ${y2}`;
  }
  const side = Math.sign(y2 - y1) || 1;
  return `M${x1} ${y1 + side * HEIGHT / 2}L${x2} ${y2 - side * (HEIGHT / 2 + 6)}`;
}

export async function refresh() {
  const graph = await get("graph");
  found.note.hidden = !graph.cycles.length;
  found.note.textContent = graph.cycles.length ? `Deadlock: ${graph.cycles.length === 1 ? "a circle" : `${graph.cycles.length} circles`} of ${graph.cycles.flat().filter((id) => id.startsWith("lock:")).length} locks that wait for each other.` : "";
  if (!graph.nodes.length) {
    put(found.drawing, h("p", { class: "empty" }, "Nobody waits."));
    put(found.list);
    found.legend.hidden = true;
    return;
  }
  found.legend.hidden = !graph.edges.some((edge) => edge.session);
  const [spots, height] = place(graph);
  const arrow = (id, bad) => s("marker", { id, class: bad ? "bad" : null, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 0L8 4L0 8Z" }));
  const edges = graph.edges.filter((edge) => spots.has(edge.from) && spots.has(edge.to)).map((edge) => s("path", {
    "data-edge": edge.type, class: [edge.cycle ? "cycle" : "", edge.session ? "dashed" : ""].join(" ").trim() || null, d: line(spots.get(edge.from), spots.get(edge.to)), "marker-end": edge.cycle ? "url(#bad)" : "url(#arrow)" }));
  const nodes = graph.nodes.map((node) => {
    const [x, y] = spots.get(node.id);
    return s("g", { "data-node": node.id, class: [node.type, node.cycle ? "cycle" : ""].join(" ").trim() },
      s("rect", { x: x - BOX / 2, y: y - HEIGHT / 2, width: BOX, height: HEIGHT, rx: node.type === "lock" ? 6 : 17 }),
      s("text", { x, y: y + 4, "text-anchor": "middle" }, short(node.text)), s("title", {}, node.text));
  });
  put(found.drawing, s("svg", { class: "graph", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "Who waits for whom; the list below says the same" },
    s("defs", {}, arrow("arrow", false), arrow("bad", true)), edges, nodes));
  const texts = new Map(graph.nodes.map((node) => [node.id, node.text]));
  put(found.list, graph.edges.map((edge) => h("li", {}, edge.type === "waits_for"
    ? h("span", { class: "grow" }, `${texts.get(edge.from)} waits for `, lockLink(edge.name, { class: "mono" }))
    : h("span", { class: "grow" }, lockLink(edge.name, { class: "mono" }), ` is held by ${texts.get(edge.to)}`),
  edge.cycle ? h("span", { class: "pill lost" }, "deadlock") : null)));
}
