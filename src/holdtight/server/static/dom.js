// Small helpers: elements from data, never from markup. Every text goes through textContent.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function keyOf(node) {
  return node.dataset.key ?? node.getAttribute("href");
}

function alike(parent, key) {
  return [...parent.querySelectorAll("a, button")].filter((each) => keyOf(each) === key);
}

// Replaces what a node has. The keyboard stays at its link or button, if the new content has it too.
export function put(parent, ...children) {
  const focused = document.activeElement;
  const key = parent.contains(focused) ? keyOf(focused) : null;
  const at = key ? alike(parent, key).indexOf(focused) : -1; // a lock may stand in two lists
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  if (at >= 0) {
    const found = alike(parent, key);
    found[Math.min(at, found.length - 1)]?.focus({ preventScroll: true });
  }
  return parent;
}

// Numbers and times as people read them.

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.0005) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function count(number) {
  return number === null || number === undefined ? "–" : number.toLocaleString("en-US");
}

export function clock(at) {
  return at ? new Date(at * 1000).toLocaleTimeString() : "–";
}

export function moment(at) {
  return at ? new Date(at * 1000).toLocaleString() : "–";
}

export function who(each) {
  return each.label || each.host || (each.session ? `session ${each.session.slice(0, 6)}` : `owner ${each.owner}`);
}

export function where(each) {
  const parts = [];
  if (each.label && each.host) parts.push(each.host);
  if (each.pid !== null && each.pid !== undefined) parts.push(`pid ${each.pid}`);
  return parts.join(" · ");
}

export function pill(state) {
  return h("span", { class: `pill ${state}` }, state);
}

// A lock hangs that others wait for, and that is held for much longer than nearly every holder of such names needed.

export function hangs(age, hold) {
  return age > (hold?.n >= 20 && hold.p99 !== null ? Math.max(10, 3 * hold.p99) : 30);
}

export function usual(hold) {
  return hold?.n >= 20 && hold.p99 !== null ? `Nearly every holder of such names needs at most ${duration(hold.p99)}.` : "How long holders of such names need is not known.";
}

export function templateOf(name) {
  return name.replace(/[0-9]+/g, "#").slice(0, 200);
}

export function lockLink(name, attributes, text) {
  return h("a", { href: `lock?name=${encodeURIComponent(name)}`, ...attributes }, text ?? name);
}

// "First" and "Next" below a list. The cursor stands in the address, so that going back in the browser works.

export function pager(refresh) {
  const first = h("button", { type: "button" }, "First");
  const next = h("button", { type: "button" }, "Next");
  const node = h("div", { class: "pager", hidden: true }, h("span", { class: "grow" }), first, next);
  let query = new URLSearchParams(location.search);
  let following = null;

  function turn(cursor) {
    if (cursor) query.set("cursor", cursor);
    else query.delete("cursor");
    const text = query.toString();
    history.pushState(null, "", text ? `?${text}` : location.pathname);
    refresh();
  }

  first.addEventListener("click", () => turn(null));
  next.addEventListener("click", () => turn(following));
  addEventListener("popstate", () => {
    query = new URLSearchParams(location.search);
    refresh();
  });
  return {
    node,
    query: () => Object.fromEntries(query),
    turned(cursor) {
      following = cursor;
      next.hidden = !cursor;
      first.hidden = !query.get("cursor");
      node.hidden = next.hidden && first.hidden;
    },
  };
}

// Time left: counted down here between two looks. Without a known length, the longest time seen of a fence is the full
// length of its bar.

const longest = new Map();

export function timeLeft(fence, left, length = 0) {
  if (left === null || left === undefined) return h("span", { class: "soft" }, "–");
  if (longest.size > 5000) longest.clear();
  const full = Math.max(longest.get(fence) ?? length, left);
  longest.set(fence, full);
  const bar = h("i");
  const text = h("span", { "data-left": left.toFixed(1) });
  const node = h("div", { class: "ttl" }, text, h("div", {}, bar));
  node.ends = performance.now() / 1000 + left;
  node.full = full;
  tickOne(node);
  return node;
}

function tickOne(node) {
  const left = Math.max(0, node.ends - performance.now() / 1000);
  const text = node.firstChild;
  text.textContent = duration(left);
  text.setAttribute("data-left", left.toFixed(1));
  node.lastChild.firstChild.style.transform = `scaleX(${node.full ? left / node.full : 0})`;
  node.toggleAttribute("data-low", left < Math.min(3, node.full / 5));
}

setInterval(() => {
  if (!document.hidden) for (const node of document.querySelectorAll(".ttl")) if (node.ends) tickOne(node);
}, 500);
