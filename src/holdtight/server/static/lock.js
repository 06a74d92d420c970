import { get, post } from "./api.js";
import { clock, count, duration, h, pill, put, timeLeft, where, who } from "./dom.js";

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
  found.holders = h("div", { class: "card" });
  found.queue = h("section", { class: "card" });
  found.times = h("section", { class: "two" });
  found.note = h("p", { class: "note", hidden: true });
  found.timeline = h("section", { class: "card" });
  found.dialog = dialog(refresh);
  found.force.addEventListener("click", () => found.dialog.showModal());
  put(main, h("div", { class: "head" }, h("h1", { class: "mono" }, name), found.state, h("span", { class: "grow" }), found.force),
    h("section", { class: "wide" }, h("div", {}, h("h2", {}, "Holder"), found.holders), found.queue),
    found.times, found.note, found.timeline, found.dialog);
}

function dialog(refresh) {
  const reason = h("textarea", { id: "reason", rows: 3, maxlength: 500, required: true });
  const error = h("p", { class: "error", role: "alert" });
  const node = h("dialog", { "aria-labelledby": "force-title" });
  const form = h("form", {}, h("h1", { id: "force-title" }, "Force release"),
    h("p", {}, "The holder learns of it, and the next in line gets the lock. Work that does not look at its lease goes on: shut it out at the resource with the fence."),
    h("label", { class: "field", for: "reason" }, "Reason", reason), error,
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => node.close() }, "Cancel"), h("button", { type: "submit", class: "danger" }, "Release now")));
  form.noValidate = true;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = "";
    if (!reason.value.trim()) {
      error.textContent = "Say why: the record of this act needs a reason.";
      reason.focus();
      return;
    }
    try {
      const done = await post("v1/force-release", { name, reason: reason.value.trim() });
      node.close();
      reason.value = "";
      toast(done.released ? `Released. Fence ${done.fence}.` : "Nothing was held.");
      await refresh();
    } catch (problem) {
      error.textContent = problem.message;
    }
  });
  return put(node, form);
}

function toast(text) {
  const node = h("div", { class: "toast", role: "status" }, text);
  document.body.append(node);
  setTimeout(() => node.remove(), 6000);
}

function holder(each, many) {
  return h("div", { class: "holder", "data-holder": each.owner },
    h("div", { class: "grow" }, h("div", {}, who(each), where(each) ? h("span", { class: "soft" }, ` ${where(each)}`) : null),
      h("dl", { class: "facts" },
        h("dt", {}, "Fence"), h("dd", { class: "mono" }, each.fence ?? "–"),
        h("dt", {}, "Since"), h("dd", {}, `${clock(each.since)}, ${duration(each.age)}`),
        each.session ? [h("dt", {}, "Session"), h("dd", { class: "mono" }, each.session)] : null,
        each.waits_for ? [h("dt", {}, "Waits for"), h("dd", { class: "mono" }, each.waits_for)] : null,
        many > 1 || each.n > 1 ? [h("dt", {}, "Permits"), h("dd", {}, each.n)] : null,
        h("dt", {}, "Owner"), h("dd", { class: "mono" }, each.owner))),
    timeLeft(each.fence, each.left));
}

function histogram(title, times) {
  const most = Math.max(1, ...times.buckets);
  const bars = times.buckets.map((number, at) => {
    const bar = h("i", { title: `${count(number)} up to ${duration(2 ** at / 1000)}` });
    bar.style.height = `${100 * number / most}%`;
    return bar;
  });
  const mark = (word) => h("div", {}, h("b", {}, duration(times[word])), h("span", { class: "soft" }, word));
  return h("div", { class: "card" }, h("h2", {}, title), h("div", { class: "bars", role: "img", "aria-label": `${title}: half within ${duration(times.p50)}` }, bars),
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
  put(found.state, pill(info.waiting ? "waiting" : info.holders.length ? "held" : "free"));
  found.force.disabled = !info.holders.length;
  put(found.holders, info.holders.length ? info.holders.map((each) => holder(each, info.holders.length)) : h("p", { class: "soft" }, "Nobody holds it."));
  put(found.queue, h("h2", {}, `Queue (${count(info.waiting)})`), info.waiters.length
    ? h("ol", { class: "queue", "data-queue": true }, info.waiters.slice(0, 50).map((each) => h("li", {}, h("span", { class: "grow" }, who(each), where(each) ? h("span", { class: "soft" }, ` ${where(each)}`) : null), h("span", { class: "soft" }, duration(each.age)))))
    : h("p", { class: "soft" }, "Nobody waits."));
  put(found.times, histogram("Time waited", info.wait), histogram("Time held", info.hold));
  found.note.hidden = info.suggested_ttl === null;
  found.note.textContent = info.suggested_ttl === null ? "" : `A ttl of ${duration(info.suggested_ttl)} would be enough: three times what nearly every holder of ${info.template} needed in the last hour.`;
  put(found.timeline, h("h2", {}, "Timeline"), info.history.length
    ? h("ol", { class: "timeline", "data-timeline": true }, info.history.map(event))
    : h("p", { class: "soft" }, "Nothing in the history yet. It has what happens by way of this service."));
}
