import { get } from "./api.js";
import { count, duration, h, lockLink, pill, put, timeLeft, where, who } from "./dom.js";

export const title = "Locks";
export const kinds = ["tick"];
const COLUMNS = [["name", "Name", "name"], ["state", "State", null], ["holder", "Holder", null], ["left", "Time left", "left"], ["waiting", "Queue", "waiting"], ["age", "Held for", "age"], ["fence", "Fence", "fence"]];
const NUMBERS = ["waiting", "age", "fence"];
const found = {};
let query;

export function show(main, me, refresh) {
  query = new URLSearchParams(location.search);
  found.search = h("input", { type: "search", "aria-label": "Search locks", placeholder: "Search names, hosts, labels  ( / )", value: query.get("q") ?? "" });
  found.state = h("select", { "aria-label": "State" }, [["", "All states"], ["held", "Held"], ["waiting", "With a queue"]].map(([value, text]) => h("option", { value, selected: value === (query.get("state") ?? "") }, text)));
  found.head = h("tr");
  found.body = h("tbody");
  found.total = h("span", { "data-total": 0, role: "status" });
  found.first = h("button", { type: "button" }, "First");
  found.next = h("button", { type: "button" }, "Next");
  let timer = 0;

  function change(name, value, stay) {
    if (value) query.set(name, value);
    else query.delete(name);
    if (!stay) query.delete("cursor");
    const text = query.toString();
    history[name === "cursor" ? "pushState" : "replaceState"](null, "", text ? `?${text}` : location.pathname);
    drawHead();
    return refresh();
  }

  function drawHead() {
    const sort = query.get("sort") ?? "name";
    const down = (query.get("order") ?? (sort === "name" ? "asc" : "desc")) === "desc";
    put(found.head, COLUMNS.map(([cell, text, key]) => {
      const order = key === sort ? (down ? "descending" : "ascending") : null;
      const again = key === sort ? (down ? "asc" : "desc") : key === "name" ? "asc" : "desc";
      return h("th", { scope: "col", "aria-sort": order, class: NUMBERS.includes(cell) ? "num" : null },
        key ? h("button", { type: "button", onclick: () => { query.set("order", again); change("sort", key); } }, text) : text);
    }));
  }

  found.search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => change("q", found.search.value.trim()), 200);
  });
  found.state.addEventListener("change", () => change("state", found.state.value));
  found.next.addEventListener("click", () => change("cursor", found.cursor, true));
  found.first.addEventListener("click", () => change("cursor", ""));
  addEventListener("popstate", () => {
    query = new URLSearchParams(location.search);
    found.search.value = query.get("q") ?? "";
    found.state.value = query.get("state") ?? "";
    drawHead();
    refresh();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "")) {
      event.preventDefault();
      found.search.focus();
    }
  });
  drawHead();
  put(main, h("div", { class: "head" }, h("h1", { class: "grow" }, "Locks"), h("div", { class: "filters" }, found.search, found.state)),
    h("section", { class: "card flush" }, h("table", { class: "rows" }, h("caption", { class: "visually-hidden" }, "Locks"), h("thead", {}, found.head), found.body),
      h("div", { class: "pager" }, found.total, h("span", { class: "grow" }), found.first, found.next)));
}

function cell(name, attributes, ...children) {
  return h("td", { "data-cell": name, class: NUMBERS.includes(name) ? "num" : null, ...attributes }, ...children);
}

function row(each, age) {
  const first = each.holders[0];
  const more = each.held > 1 ? h("span", { class: "sub" }, `and ${count(each.held - 1)} more`) : null;
  const state = each.waiting ? "waiting" : each.held ? "held" : "free";
  return h("tr", { "data-name": each.name },
    cell("name", {}, lockLink(each.name), h("span", { class: "sub" }, each.kind)),
    cell("state", {}, pill(state)),
    cell("holder", {}, first ? who(first) : "–", first && !more ? h("span", { class: "sub" }, where(first)) : more),
    cell("left", {}, timeLeft(each.fence, each.left === null ? null : Math.max(0, each.left - age))),
    cell("waiting", { "data-none": !each.waiting }, each.waiting ? `${count(each.waiting)} waiting, ${duration(each.oldest_wait)}` : "–"),
    cell("age", {}, duration(each.age)),
    cell("fence", {}, h("span", { class: "mono soft" }, each.fence ?? "–")));
}

export async function refresh() {
  const wanted = Object.fromEntries(query);
  const page = await get("locks", wanted);
  found.cursor = page.next;
  found.next.disabled = !page.next;
  found.first.hidden = !query.get("cursor");
  found.total.dataset.total = page.total;
  found.total.textContent = page.total === 1 ? "1 lock" : `${count(page.total)} locks`;
  put(found.body, page.locks.length ? page.locks.map((each) => row(each, page.age))
    : h("tr", {}, h("td", { colspan: COLUMNS.length, class: "empty" }, query.get("q") || query.get("state") ? "No lock matches." : "Nothing is held, and nobody waits.")));
}
