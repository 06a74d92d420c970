// Locks for a Node program: a session with beats, retries by request id, and the `valid` deadline. Node 18 or newer.
//
//     HOLDTIGHT=http://127.0.0.1:7379,http://127.0.0.1:7380 TOKEN=ht_... node session.mjs NAME

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const instances = (process.env.HOLDTIGHT ?? "http://127.0.0.1:7379").split(",");
const clock = () => performance.now() / 1000;

// Sends a request until it is answered. Any instance will do: the request id makes a repeated acquire safe.
async function ask(verb, body, { until = clock() + 60, timeout = 60 } = {}) {
  for (let at = 0; ; at++) {
    const sent = clock();
    try {
      const answer = await fetch(`${instances[at % instances.length]}/v1/${verb}`, {
        method: "POST",
        headers: { authorization: `Bearer ${process.env.TOKEN}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(timeout * 1000),
      });
      const found = await answer.json().catch(() => ({})); // a proxy's own 502 is no JSON
      if (answer.ok) return { ...found, sent };
      const final = ![502, 503, 504].includes(answer.status);
      throw Object.assign(new Error(found.detail ?? `status ${answer.status}`), { code: found.code, final });
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
    made.ttl = ttl;
    made.deadlines = new Map(); // by lease
    made.timer = setInterval(() => made.beat().catch(() => {}), (ttl * 1000) / 3);
    return made;
  }

  // A beat renews the leases that its answer lists; it says nothing about those that are `unknown`.
  async beat() {
    // An instance that hangs must not cost the session: another one is asked in time.
    const answer = await ask("session/beat", { session: this.text }, { until: clock() + this.ttl, timeout: this.ttl / 5 });
    const until = answer.sent + answer.valid; // from the moment at which the request was sent
    for (const { lease } of answer.leases) if (this.deadlines.get(lease) < until) this.deadlines.set(lease, until);
    for (const { lease } of answer.lost) this.deadlines.delete(lease);
  }

  async acquire(name, wait = 30) {
    const lease = await ask("acquire", { name, session: this.text, wait, request: randomUUID() });
    this.deadlines.set(lease.lease, lease.sent + lease.valid);
    return lease;
  }

  // Call it before each write of the protected work.
  check(lease) {
    if (!(clock() < this.deadlines.get(lease.lease))) throw new Error(`the lock ${lease.name} is lost`);
  }

  release(lease) {
    this.deadlines.delete(lease.lease);
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
