// Locks for Node.js in a process of their own. Speaks the protocol of bench/worker.py: a drill as a line of JSON, one
// line of JSON back. It knows one drill, many async functions at once: `free.cost_of_tasks`.
//
//     node worker.mjs node_redlock redis://127.0.0.1:6379/0 FOLDER     FOLDER has node_modules

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [variant, url, folder] = process.argv.slice(2);
const load = createRequire(`${folder}/index.js`);
const TTL = 30_000;

const LIBRARIES = {
  node_redlock: {
    packages: ["redlock", "ioredis"],
    pair(redis) {
      const Redlock = load("redlock").default;
      const redlock = new Redlock([redis], { retryCount: 0 });
      return async (name) => (await redlock.acquire([name], TTL)).release();
    },
  },
  node_semaphore: {
    packages: ["redis-semaphore", "ioredis"],
    pair(redis) {
      const { Mutex } = load("redis-semaphore");
      return async (name) => {
        const mutex = new Mutex(redis, name, { lockTimeout: TTL });
        await mutex.acquire();
        await mutex.release();
      };
    },
  },
};

const library = LIBRARIES[variant];
const Redis = load("ioredis").default ?? load("ioredis");
const redis = new Redis(url);
const pair = library.pair(redis);

let drills = 0;

async function costOfTasks({ count, seconds, fresh }) {
  drills += 1; // a name of an earlier drill would not be new
  const names = Array.from({ length: count }, (_, number) => (fresh ? `cost:${drills}:${number}` : `cost:${number}`));
  await Promise.all(names.map(pair));
  const began = process.cpuUsage();
  const start = performance.now();
  const until = start + 1000 * seconds;
  let pairs = 0;
  await Promise.all(
    names.map(async (name) => {
      for (let number = 0; performance.now() < until; number += 1) {
        await pair(fresh ? `${name}:${number}` : name);
        pairs += 1;
      }
    }),
  );
  const used = process.cpuUsage(began);
  return {
    pairs,
    seconds: (performance.now() - start) / 1000,
    processor: (used.user + used.system) / 1e6 / Math.max(1, pairs),
  };
}

function version(name) {
  // Not every package lets its package.json be loaded by name.
  return JSON.parse(readFileSync(`${folder}/node_modules/${name}/package.json`, "utf8")).version;
}

const DRILLS = {
  versions: async () => Object.fromEntries(library.packages.map((name) => [name, version(name)])),
  pin: async ({ cpus }) => {
    execFileSync("taskset", ["-a", "-p", "-c", cpus.join(","), String(process.pid)], { stdio: "ignore" });
    return null;
  },
  "free.cost_of_tasks": costOfTasks,
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    if (!(request.do in DRILLS)) throw new Error(`${variant} has no ${request.do}`);
    answer = { result: await DRILLS[request.do](request.with) };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
redis.disconnect();
