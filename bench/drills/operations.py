"""Looking at locks from outside, and taking them away: list, doctor, release by force."""

from __future__ import annotations

import resource
import threading
from contextlib import suppress
from time import perf_counter, process_time, sleep
from typing import TypedDict
from urllib.parse import urlsplit

from bench.stats import percentile
from bench.variants import Variant
from bench.variants.holdtight import Holdtight
from bench.wire import Connection
from holdtight import NotOwner

OTHER = "other"


class Looked(TypedDict):
    seconds: float
    processor: float
    megabytes: float
    """How far the memory of this process rose meanwhile."""


def listing(variant: Variant, *, expected: int) -> Looked:
    """List all locks, as `locks.list()` does it. The lock of `pairs` is held or not."""
    assert isinstance(variant, Holdtight)
    before = _peak()
    start, used = perf_counter(), process_time()
    found = sum(1 for info in variant.locks.list() if info.name != OTHER)
    took, spent = perf_counter() - start, process_time() - used
    if found != expected:
        raise RuntimeError(f"{found:,} locks listed, {expected:,} are held")
    return Looked(seconds=took, processor=spent, megabytes=(_peak() - before) / 1024)


def doctor(variant: Variant) -> float:
    """Seconds."""
    assert isinstance(variant, Holdtight)
    start = perf_counter()
    variant.locks.doctor()
    return perf_counter() - start


def forced(variant: Variant, *, times: int, marked: bool = False) -> list[float]:
    """Milliseconds from the call of `force_release` until the next holder runs. `marked`: MONITOR shows both."""
    assert isinstance(variant, Holdtight)
    locks = variant.locks
    found = list[float]()
    marks = Connection(urlsplit(variant.url).port or 6379)

    def wait(name: str) -> None:
        with locks.lock(name, ttl=30, wait=10):
            found.append(perf_counter())
            if marked:
                marks.ask("ECHO", "forced-end")

    for number in range(times):
        name = f"forced:{number}"
        held = locks.lock(name, ttl=30).acquire()
        waiter = threading.Thread(target=wait, args=(name,))
        waiter.start()
        while not locks.inspect(name).waiting:
            sleep(0.001)
        if marked:
            marks.ask("ECHO", "forced-begin")
        start = perf_counter()
        locks.force_release(name, reason="benchmark")
        waiter.join()
        found[-1] = (found[-1] - start) * 1000
        with suppress(NotOwner):
            held.release()
    marks.close()
    return found


def pairs(variant: Variant, *, seconds: float) -> float:
    """The p99 of a client's pairs, one after the other, in milliseconds."""
    assert isinstance(variant, Holdtight)
    durations = list[float]()
    until = perf_counter() + seconds
    while perf_counter() < until:
        start = perf_counter()
        variant.pair(OTHER)
        durations.append((perf_counter() - start) * 1000)
    return percentile(durations, 0.99)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
