"""A program: holds ten thousand leases, stops itself (SIGSTOP) until all of them are due, and goes on.

`python -m tests.faults.stopping redis://…` prints one line of JSON: how many leases were not renewed in time, what was
told meanwhile, and by how much the machine's time of day was set. It is the renewal row of `bench`, with the causes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

from holdtight import Locks
from holdtight.events import KeeperLate, Lost, RenewalFailed
from tests.support.clock_steps import Standstills

TTL = 12.0


def stop_and_go_on(url: str, leases: int = 10_000, longer: float = 0.3) -> dict[str, Any]:
    """`longer`: seconds for which the process stays stopped after the last lease is due."""
    told, late = Counter[str](), list[float]()

    def tell(event: object) -> None:
        if isinstance(event, RenewalFailed):
            told["refused as late" if event.cause.startswith("[-1") else event.cause] += 1
        elif isinstance(event, Lost):
            told[f"lost: {event.reason}"] += 1
        elif isinstance(event, KeeperLate):
            late.append(round(event.late, 2))

    standstills, since = Standstills(), time.monotonic()
    clock = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    with Locks(url) as locks:
        began = time.perf_counter()
        held = [locks.lock(f"held:{number}", ttl=TTL).acquire(wait=0) for number in range(leases)]
        took = time.perf_counter() - began
        locks.events.subscribe(tell)
        time.sleep(max(0.0, min(lease.remaining() for lease in held) - TTL * 2 / 3 - 0.3))
        _sleep_stopped(max(0.0, max(lease.remaining() for lease in held) - TTL * 2 / 3) + longer)
        least = min(lease.remaining() for lease in held)

        pairs, done = list[float](), threading.Event()

        def neighbour() -> None:
            while not done.is_set():
                before = time.perf_counter()
                with locks.lock("neighbour", ttl=30):
                    pass
                pairs.append((time.perf_counter() - before) * 1000)

        thread = threading.Thread(target=neighbour)
        start = time.perf_counter()
        ends = [start + lease.remaining() for lease in held]
        thread.start()
        missing = held
        while missing and time.perf_counter() < start + TTL:
            time.sleep(0.05)
            now = time.perf_counter()
            missing = [lease for lease, end in zip(held, ends, strict=True) if now + lease.remaining() < end + 1]
            if missing and all(lease.lost for lease in missing):
                break
        round_seconds = time.perf_counter() - start
        done.set()
        thread.join()
        lost = sum(lease.lost for lease in held)
        for lease in held:
            if not lease.lost:
                lease.release()
    stepped = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - clock
    pairs.sort()
    stood = standstills.longest(since)
    standstills.close()
    return {
        "lost": lost,
        "missing": len(missing),
        "told": dict(told),
        "keeper late": late,
        "taking": round(took, 2),
        "least left": round(least, 2),
        "round": round(round_seconds, 2),
        "p99 of others, ms": round(pairs[len(pairs) * 99 // 100], 1) if pairs else None,
        "worst pair, s": round(max(pairs, default=0.0) / 1000, 2),
        "machine stood still, s": round(stood, 2),
        "clock stepped by": round(stepped, 3),
    }


def _sleep_stopped(seconds: float) -> None:
    me = os.getpid()
    alarm = subprocess.Popen(["sh", "-c", f"sleep {seconds:.3f}; kill -CONT {me}"])
    os.kill(me, signal.SIGSTOP)
    alarm.wait()


def main(url: str) -> None:
    print(json.dumps(stop_and_go_on(url)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
