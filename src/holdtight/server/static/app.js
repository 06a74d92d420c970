// The shell: tabs, theme, who is signed in, the live stream; and one module for each page.

import { follow, get, post, whoAmI, Problem } from "./api.js";
import { clock, h, put } from "./dom.js";
import * as audit from "./audit.js";
import * as contention from "./contention.js";
import * as graph from "./graph.js";
import * as lock from "./lock.js";
import * as locks from "./locks.js";
import * as login from "./login.js";
import * as nodes from "./nodes.js";
import * as overview from "./overview.js";
import * as sessions from "./sessions.js";

const PAGES = { "": overview, locks, lock, contention, graph, nodes, sessions, audit, login };
const TABS = [["", "Overview"], ["locks", "Locks"], ["contention", "Contention"], ["graph", "Wait-for"], ["nodes", "Nodes"], ["sessions", "Sessions"], ["audit", "Audit"]];

const word = location.pathname.split("/").pop();
const page = PAGES[word] ?? overview;
const main = document.getElementById("main");
const live = document.querySelector(".live");
const trouble = h("p", { class: "note bad", role: "alert", hidden: true });
const now = { streams: false, fails: false, seen: null };

function theme() {
  const kept = localStorage.getItem("theme");
  if (kept) document.documentElement.dataset.theme = kept;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  });
}

function tabs(me) {
  const current = word === "lock" ? "locks" : word;
  const shown = TABS.filter(([path]) => path !== "audit" || me.role === "admin");
  put(document.querySelector("nav.tabs"), shown.map(([path, text]) => h("a", { href: path || "./", "aria-current": path === current ? "page" : null }, text)));
  document.querySelector("nav.tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.querySelector(".who").textContent = `${me.token} (${me.role})`;
  const out = document.getElementById("logout");
  out.hidden = !me.csrf;
  out.addEventListener("click", async () => {
    await post("logout", {});
    location.assign("login");
  });
}

// A page is drawn anew when something changes. What a reader copies stays; `put` keeps the place of the keyboard.

function selecting() {
  const selection = getSelection();
  return !selection.isCollapsed && main.contains(selection.anchorNode);
}

function say() {
  live.dataset.live = now.streams && !now.fails ? "live" : "reconnecting";
  live.textContent = now.streams && !now.fails ? "Live" : "Reconnecting";
}

// Says what keeps the page from showing news. null: nothing does.
function tell(problem) {
  const asksOn = problem !== null && (!problem.status || problem.status >= 500);
  const old = now.seen ? ` What you see is from ${clock(now.seen)}.` : "";
  const text = problem === null ? "" : asksOn ? `${problem.message}${old} The page goes on asking.` : problem.message;
  now.fails = asksOn;
  if (problem === null) now.seen = Date.now() / 1000;
  if (trouble.textContent !== text) trouble.textContent = text; // or a screen reader would say it again and again
  trouble.hidden = !text;
  say();
}

async function signedIn() {
  for (;;) {
    try {
      return await whoAmI();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      put(main, trouble);
      tell(problem);
      if (!now.fails) return null;
      await new Promise((resolve) => { setTimeout(resolve, 2000); });
    }
  }
}

async function start() {
  theme();
  document.title = page.title ? `${page.title} · holdtight` : "holdtight";
  if (page === login) {
    live.hidden = true;
    login.show(main);
    return;
  }
  const me = await signedIn();
  if (!me) return;
  tabs(me);
  let busy = false;
  let again = false;
  let later = null;

  async function refresh() {
    if (busy || selecting()) {
      if (busy) again = true;
      else later ??= setTimeout(() => { later = null; refresh(); }, 1000);
      return;
    }
    clearTimeout(later);
    later = null;
    busy = true;
    try {
      await page.refresh();
      tell(null);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      tell(error);
    } finally {
      busy = false;
      if (again) {
        again = false;
        setTimeout(refresh, 200);
      }
    }
  }

  page.show(main, me, refresh);
  main.prepend(trouble);
  await refresh();
  setInterval(() => {
    if (!document.hidden && (!page.onDemand || now.fails)) refresh(); // ages grow while nothing changes
  }, 5000);
  follow(page.following?.() ?? {}, (kind) => {
    if (!page.kinds || page.kinds.includes(kind)) refresh();
  }, (state) => {
    now.streams = state === "live";
    say();
  });
}

start();
