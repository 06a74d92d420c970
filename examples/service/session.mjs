// Locks for a Node program: a session with beats, retries by request id, and the `valid` deadline. Node 18 or newer.
//
//     HOLDTIGHT=http://127.0.0.1:7379,http://127.0.0.1:7380 TOKEN=ht_... node session.mjs NAME

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const instances = (process.env.HOLDTIGHT ?? "http://127.0.0.1:7379").split(",");
const clock = () => performance.now() / 1000;

// Sends a request until it is answered. Any instance will do: the request id makes a repeated acquire safe.
async function ask(verb, body, { until = clock() + 60 } = {}) {
  for (let at = 0; ; at++) {
    const sent = clock();
    try {
      const answer = await fetch(`${instances[at % instances.length]}/v1/${verb}`, {
        method: "POST",
        headers: { authorization: `Bearer ${process.env.TOKEN}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(60_000),
      });
      const found = await answer.json();
      if (answer.ok) return { ...found, sent };
      if (answer.status !== 503) throw Object.assign(new Error(found.detail), { code: found.code, final: true });
    } catch (error) {
      if (error.final || clock() > until) throw error;
    }
    await sleep(100 + 400 * Math.random());
  }
}

export class Session {
  static async open(ttl = 15) {
    const made = new Session();
    const opened = await ask("session/open", { ttl, label: "node", host: hostname(), pid: process.pid });
    made.text = opened.session;
    made.deadline = opened.sent + opened.valid; // from the moment at which the request was sent
    made.lost = new Set();
    made.timer = setInterval(() => made.beat().catch(() => {}), (ttl * 1000) / 3);
    return made;
  }

  async beat() {
    const answer = await ask("session/beat", { session: this.text }, { until: this.deadline });
    this.deadline = Math.max(this.deadline, answer.sent + answer.valid);
    for (const each of answer.lost) this.lost.add(each.lease);
  }

  async acquire(name, wait = 30) {
    const lease = await ask("acquire", { name, session: this.text, wait, request: randomUUID() });
    lease.deadline = lease.sent + lease.valid;
    return lease;
  }

  // Call it before each write of the protected work.
  check(lease) {
    if (this.lost.has(lease.lease) || clock() >= Math.max(this.deadline, lease.deadline)) throw new Error(`lost ${lease.name}`);
  }

  release(lease) {
    return ask("release", { lease: lease.lease, again: true });
  }

  async close() {
    clearInterval(this.timer);
    await ask("session/close", { session: this.text });
  }
}

const session = await Session.open();
try {
  const lease = await session.acquire(process.argv[2] ?? "example");
  session.check(lease);
  console.log(`fence ${lease.fence}`);
  await session.beat();
  session.check(lease);
  await session.release(lease);
} finally {
  await session.close();
}
