import { get, post } from "./api.js";
import { askWhy } from "./dialog.js";
import { clock, count, duration, h, hangs, pill, put, timeLeft, usual, where, who } from "./dom.js";

export const title = "Lock";
const found = {};
const name = new URLSearchParams(location.search).get("name") ?? "";

export function following() {
  return { name };
}

export function show(main, me, refresh) {
  document.title = `${name} · holdtight`;
  found.state = h("span");
  found.force = h("button", { type: "button", class: "danger", hidden: me.role !== "admin" }, "Force release");
  found.holders = h("section", { class: "card" });
  found.queue = h("section", { class: "card" });
  found.times = h("section", { class: "two" });
  found.note = h("p", { class: "note quiet", hidden: true });
  found.timeline = h("section", { class: "card" });
  found.advice = h("p", { class: "note", role: "status", "data-advice": true, hidden: true });
  found.force.addEventListener("click", () => force(found.seen, refresh));
  put(main, h("div", { class: "head" }, h("h1", { class: "mono" }, name), found.state, h("span", { class: "grow" }), found.force),
    found.advice, h("section", { class: "wide" }, found.holders, found.queue),
    found.times, found.note, found.timeline);
}

// Takes the lock from the holder that the operator saw, and from no later one.
function force(holders, refresh) {
  const only = holders.length === 1 ? holders[0] : null;
  askWhy({
    title: "Force release",
    text: `${only ? who(only) : `Each of the ${count(holders.length)} holders`} learns of it, and the next in line gets the lock. Work that does not look at its lease goes on: shut it out at the resource with the fence.`,
    button: "Release now",
    act: async (reason) => {
      const done = await post("v1/force-release", only ? { name, reason, owner: only.owner } : { name, reason });
      await refresh();
      return done.released ? `Released. Fence ${done.fence}.` : only ? `${who(only)} held it no longer: nothing was taken.` : "Nothing was held.";
    },
  });
}

function holder(each, counted) {
  return h("div", { class: "holder", "data-holder": each.owner },
    h("div", { class: "grow" }, h("div", { class: "name" }, h("b", {}, who(each)), where(each) ? h("span", { class: "soft" }, ` ${where(each)}`) : null),
      h("dl", { class: "facts" },
        h("dt", {}, "Fence"), h("dd", { class: "mono" }, each.fence ?? "–"),
        h("dt", {}, "Since"), h("dd", {}, `${clock(each.since)}, for ${duration(each.age)}`),
        each.session ? [h("dt", {}, "Session"), h("dd", { class: "mono" }, each.session)] : null,
        each.waits_for ? [h("dt", {}, "Waits for"), h("dd", { class: "mono" }, each.waits_for)] : null,
        counted ? [h("dt", {}, "Permits"), h("dd", {}, each.n)] : null,
        h("dt", {}, "Owner"), h("dd", { class: "mono" }, each.owner))),
    timeLeft(each.fence, each.left));
}

// What to do about a lock that others wait for, and that is held for longer than usual.
function advice(info, oldest) {
  const first = info.holders[0];
  const place = where(first);
  return `${count(info.waiting)} wait${info.waiting === 1 ? "s" : ""} while ${who(first)}${place ? ` (${place})` : ""} has held this lock for ${duration(oldest)}. ${usual(info.hold)} `
    + "First look at that process: if it works, wait. If it hangs, end it: the lock is free when its time left runs out. If you cannot, force the release, and shut the old holder out with the fence.";
}

function unseen(info) {
  const seen = new Set(info.history.map((each) => each.fence));
  return info.holders.some((each) => each.fence && !seen.has(each.fence));
}

function histogram(title, times, template) {
  const most = Math.max(1, ...times.buckets);
  const bars = times.buckets.map((number, at) => {
    const bar = h("i", { title: `${count(number)} up to ${duration(2 ** at / 1000)}` });
    bar.style.height = `${100 * number / most}%`;
    return bar;
  });
  const mark = (word) => h("div", {}, h("b", {}, duration(times[word])), h("span", { class: "soft" }, word));
  return h("div", { class: "card" }, h("h2", {}, `${title}: `, h("span", { class: "mono" }, template), " in the last hour"), h("div", { class: "bars", role: "img", "aria-label": `${title}: half within ${duration(times.p50)}` }, bars),
    h("div", { class: "axes", "aria-hidden": "true" }, [0, 5, 10, 15, 20, 25].map((at) => h("span", {}, duration(2 ** at / 1000)))),
    h("div", { class: "marks" }, mark("p50"), mark("p95"), mark("p99"), h("div", {}, h("b", {}, count(times.n)), h("span", { class: "soft" }, "seen"))));
}

function event(each) {
  const parts = [clock(each.at)];
  if (each.fence) parts.push(`fence ${each.fence}`);
  if (each.waited >= 0.001) parts.push(`waited ${duration(each.waited)}`);
  if (each.by) parts.push(`by ${each.by}`);
  if (each.reason) parts.push(each.reason);
  return h("li", { "data-kind": each.kind }, h("b", {}, each.kind.replace("_", " ")), h("span", { class: "soft" }, ` ${parts.join(" · ")}`));
}

export async function refresh() {
  const info = await get("lock", { name });
  const oldest = info.holders.reduce((age, each) => Math.max(age, each.age ?? 0), 0);
  found.advice.hidden = !info.waiting || !hangs(oldest, info.hold);
  found.advice.textContent = found.advice.hidden ? "" : advice(info, oldest);
  put(found.state, pill(info.waiting ? "waiting" : info.holders.length ? "held" : "free"));
  found.seen = info.holders;
  found.force.disabled = !info.holders.length;
  put(found.holders, h("h2", {}, info.holders.length > 1 ? `Holders (${count(info.holders.length)})` : "Holder"), info.holders.length
    ? info.holders.map((each) => holder(each, info.kind === "permits"))
    : h("p", { class: "soft" }, "Nobody holds it."));
  put(found.queue, h("h2", {}, `Queue (${count(info.waiting)})`), info.waiters.length
    ? h("ol", { class: "queue", "data-queue": true }, info.waiters.slice(0, 50).map((each) => h("li", {}, h("span", { class: "grow" }, who(each), where(each) ? h("span", { class: "soft" }, ` ${where(each)}`) : null), h("span", { class: "soft" }, duration(each.age)))))
    : h("p", { class: "soft" }, "Nobody waits."));
  put(found.times, histogram("Time waited", info.wait, info.template), histogram("Time held", info.hold, info.template));
  found.note.hidden = info.suggested_ttl === null;
  found.note.textContent = info.suggested_ttl === null ? "" : `A ttl of ${duration(info.suggested_ttl)} would be enough: three times what nearly every holder of ${info.template} needed in the last hour.`;
  put(found.timeline, h("h2", {}, "Timeline"), info.history.length
    ? h("ol", { class: "timeline", "data-timeline": true }, info.history.map(event))
    : h("p", { class: "soft" }, "Nothing in the history yet."),
  h("p", { class: "soft sub" }, unseen(info)
    ? "This holder is not in the history: programs without history.install(locks), and grants beyond 200 a second, show only while they hold."
    : "Exact for this service and for programs with history.install(locks). Others show only while they hold."));
}
