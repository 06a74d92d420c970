"""Many leases of one process. No peer has them, so these drills know holdtight."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
import tracemalloc
from pathlib import Path
from typing import TypedDict

from bench.variants import Variant
from holdtight import Lease, Locks


class Renewal(TypedDict):
    round_ms: float
    pairs_ms: list[float]


def renewal(variant: Variant, *, leases: int, rounds: int) -> list[Renewal]:
    """How long the keeper takes when all leases are due at once, and what other threads feel of it.

    Leases that were taken over a second are due over a second. So the process stops itself (SIGSTOP)
    from before the first is due until after the last is: when it goes on, all of them are.
    """
    ttl = 12.0
    with Locks(variant.url) as locks:
        held = _take_many(locks, leases, ttl)
        try:
            return [_one_round(locks, held, ttl) for _ in range(rounds)]
        finally:
            for lease in held:
                lease.release()


def _take_many(locks: Locks, count: int, ttl: float) -> list[Lease]:
    """In several threads: a round trip across cores is mostly waiting."""
    held: list[Lease] = []

    def run(numbers: range) -> None:
        held.extend(locks.lock(f"held:{number}", ttl=ttl).acquire(wait=0) for number in numbers)

    team = [threading.Thread(target=run, args=(range(first, count, 4),)) for first in range(4)]
    for member in team:
        member.start()
    for member in team:
        member.join()
    return held


def _one_round(locks: Locks, held: list[Lease], ttl: float) -> Renewal:
    left = [lease.remaining() for lease in held]
    ends = [time.perf_counter() + remaining for remaining in left]
    # Renewal is due when a third of the ttl has passed: asleep from just before that for the oldest lease …
    time.sleep(max(0.0, min(left) - ttl * 2 / 3 - 0.3))
    # … until just after it for the youngest, whose renewal is then already late.
    asleep = max(0.0, max(lease.remaining() for lease in held) - ttl * 2 / 3) + 0.3
    last = max(held, key=lambda lease: lease.remaining())
    _sleep_stopped(asleep)

    start, took = time.perf_counter(), 0.0
    done = threading.Event()
    pairs: list[float] = []

    def neighbour() -> None:
        while not done.is_set():
            before = time.perf_counter()
            with locks.lock("neighbour", ttl=30):
                pass
            pairs.append((time.perf_counter() - before) * 1000)

    thread = threading.Thread(target=neighbour)
    thread.start()
    # Check only the one that was due last: checking all of them would take the time that we measure.
    late = [last]
    while late and time.perf_counter() < start + ttl:
        time.sleep(0.001)
        if late[-1].remaining() > ttl * 0.9:
            took = time.perf_counter() - start
            done.set()
            # On a slow machine the first ones were renewed so long ago that their time is not nearly full any more.
            late = [
                lease
                for lease, end in zip(held, ends, strict=True)
                if time.perf_counter() + lease.remaining() < end + 1
            ]
            if late and late[-1].lost:
                break
    done.set()
    thread.join()
    if late:
        raise RuntimeError(
            f"{len(late)} leases were not renewed within {ttl} s, {sum(each.lost for each in late)} lost"
        )
    return Renewal(round_ms=took * 1000, pairs_ms=pairs)


def _sleep_stopped(seconds: float) -> None:
    """As if the machine had no time for this process at all."""
    me = os.getpid()
    alarm = subprocess.Popen(["sh", "-c", f"sleep {seconds:.3f}; kill -CONT {me}"])
    os.kill(me, signal.SIGSTOP)
    alarm.wait()


class Held(TypedDict):
    lost: int
    bytes_each: float
    cpu_percent: float


def held(variant: Variant, *, leases: int, seconds: float, counted: bool = False) -> Held:
    """Keep many leases for a while and do nothing else. `counted`: with Prometheus metrics."""
    return asyncio.run(_held(variant.url, leases, seconds, counted))


async def _held(url: str, count: int, seconds: float, counted: bool) -> Held:
    from holdtight import AsyncLocks

    async with AsyncLocks(url) as locks:
        if counted:
            from prometheus_client import CollectorRegistry

            from holdtight import metrics

            metrics.install(locks, registry=CollectorRegistry())
        await (await locks.lock("warm-up", ttl=30).acquire()).release()
        before = resident()
        kept = []
        for start in range(0, count, 1000):
            names = (f"held:{number}" for number in range(start, min(count, start + 1000)))
            kept += await asyncio.gather(*(locks.lock(name, ttl=30).acquire(wait=0) for name in names))
        each = (resident() - before) / count
        cpu, wall = time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        percent = 100 * (time.process_time() - cpu) / (time.perf_counter() - wall)
        lost = sum(lease.lost for lease in kept)
        for start in range(0, count, 1000):
            part = kept[start : start + 1000]
            await asyncio.gather(*(lease.release() for lease in part), return_exceptions=True)
        return Held(lost=lost, bytes_each=each, cpu_percent=percent)


def idle_locks(variant: Variant, *, count: int) -> float:
    """Bytes of memory for each of so many lock objects with different names, the names included."""
    with Locks(variant.url) as locks:
        for number in range(2000):
            locks.lock(f"warm:{number}")  # fills the client's cache
        tracemalloc.start()
        kept = [locks.lock(f"idle:{number:06}") for number in range(count)]
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size / len(kept)


def resident() -> int:
    """Bytes of memory that this process has in use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        kilobytes = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True)
        return int(kilobytes.stdout) * 1024
