"""Locks that others want too: waking up, and the hot lock."""

from __future__ import annotations

import asyncio
import mmap
import threading
import time
from pathlib import Path

from bench.variants import Variant

_held: list[object] = []

LAST, CHANGES, INSIDE, VIOLATIONS, STOP, COUNTS = range(6)
"""The slots of a Board."""


def take(variant: Variant, *, name: str) -> int:
    """Waits for the lock; returns when it was ours, on the clock that all processes of the machine share."""
    held = variant.take(name)
    moment = time.monotonic_ns()
    _held.append(held)
    return moment


def give(variant: Variant) -> int:
    """Releases; returns when the release began."""
    held = _held.pop()
    moment = time.monotonic_ns()
    variant.give(held)
    return moment


class Board:
    """What the holders of the hot lock write down, in a file that all of them have mapped.

    Only the holder of the lock writes, so that a lock that does not exclude shows here as a violation.
    (The coordinator writes STOP, and nothing else.)
    """

    def __init__(self, path: Path, waiters: int, *, create: bool = False) -> None:
        self.waiters = waiters
        size = 8 * (COUNTS + waiters)
        if create:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._slots = memoryview(self._map).cast("q")
        """A holder reads and writes eleven of them: a view costs less than calls of `struct`."""

    def get(self, slot: int) -> int:
        return self._slots[slot]

    def put(self, slot: int, value: int) -> None:
        self._slots[slot] = value

    def enter(self, me: int) -> None:
        """`me` counts from 1; 0 stands for no holder."""
        slots = self._slots
        if slots[INSIDE]:
            slots[VIOLATIONS] += 1
        slots[INSIDE] = me
        if slots[LAST] != me:
            slots[LAST] = me
            slots[CHANGES] += 1
        slots[COUNTS + me - 1] += 1

    def leave(self, me: int) -> None:
        slots = self._slots
        if slots[INSIDE] != me:
            slots[VIOLATIONS] += 1
        slots[INSIDE] = 0

    def counts(self) -> list[int]:
        return [self._slots[COUNTS + number] for number in range(self.waiters)]

    def close(self) -> None:
        self._slots.release()
        self._map.close()


def contend(variant: Variant, *, name: str, board: str, first: int, threads: int, waiters: int) -> None:
    """Some of the waiters of the hot lock, in threads, until the board says stop."""
    shared = Board(Path(board), waiters)
    failures: list[BaseException] = []

    def run(me: int) -> None:
        try:
            while not shared.get(STOP):
                held = variant.take(name)
                shared.enter(me)
                shared.leave(me)
                variant.give(held)
        except BaseException as error:
            failures.append(error)

    team = [threading.Thread(target=run, args=(first + number,)) for number in range(threads)]
    for member in team:
        member.start()
    for member in team:
        member.join()
    shared.close()
    if failures:
        raise failures[0]


def waits(variant: Variant, *, name: str, board: str, waiters: int) -> float:
    """A process that wants the hot lock now and then, until the board says stop: its longest wait, in seconds."""
    shared = Board(Path(board), waiters)
    longest = 0.0
    while not shared.get(STOP):
        start = time.monotonic()
        held = variant.take(name)
        longest = max(longest, time.monotonic() - start)
        variant.give(held)
        time.sleep(0.01)
    shared.close()
    return longest


def tasks(variant: Variant, *, count: int, seconds: float) -> float:
    """Asyncio tasks that all want one name: hand-overs per second."""
    return asyncio.run(_tasks(variant, count, seconds))


async def _tasks(variant: Variant, count: int, seconds: float) -> float:
    async with variant.runner(count) as runner:
        await asyncio.gather(*(runner.repeat("one", time.perf_counter() + 0.02) for _ in range(count)))
        start = time.perf_counter()
        done = await asyncio.gather(*(runner.repeat("one", start + seconds) for _ in range(count)))
        return sum(done) / (time.perf_counter() - start)
