"""A fleet that takes locks of all kinds at random and is killed at random, and a referee that reads its diary.

Each worker writes a line to a shared file right after a grant and another right before the release, so that the lease
is truly held between the two. Each line is one write to a file opened for appending: lines never mix. A killed worker
stops at the moment of the kill, which its killer writes down. The referee replays the diary in the order of time.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections import defaultdict
from typing import Any, NamedTuple

from holdtight import AsyncLocks, LockError, Locks
from holdtight.base.clock import boottime

__all__ = ["Entry", "Referee", "in_tasks", "in_threads", "read_diary"]

LIMITS = {"gate": 3, "hatch": 5}
BOOKS = ("book", "page")
TTL = 0.6


class Entry(NamedTuple):
    at: float
    what: str
    worker: str
    lease: str
    name: str
    mode: str
    n: int
    fence: int


class Diary:
    def __init__(self, path: str, worker: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._worker = worker

    def write(self, what: str, lease: Any, mode: str, n: int) -> None:
        at, until = boottime(), lease.tenure.deadline
        if what == "begin" and at >= until:
            return  # the lease was lost before this line: it has protected nothing
        # A worker that notices the loss only now held the lease until the loss, and not until now.
        moment = at if what == "begin" else min(at, until)
        for tenure in lease.tenures:
            words = [f"{moment:.6f}", what, self._worker, tenure.owner.hex(), tenure.name, mode, n, tenure.fence]
            os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def read_diary(path: str) -> list[Entry]:
    with open(path) as file:
        rows = [line.split() for line in file]
    entries = [
        Entry(float(at), what, worker, lease, name, mode, int(n), int(fence))
        for at, what, worker, lease, name, mode, n, fence in rows
    ]
    return sorted(entries, key=lambda entry: (entry.at, entry.what == "begin"))


def _wish(client: Any, dice: random.Random) -> tuple[Any, str, int, dict[str, Any]]:
    """A lock object, its kind as the referee records it, and the arguments of acquire."""
    wait = {"wait": dice.choice([0, 0.05, 1, 3])}
    kind = dice.choice(["lock", "read", "read", "write", "permit", "permit", "multi"])
    book = dice.choice(BOOKS)
    if kind == "lock":
        return client.lock(book, ttl=TTL), "x", 1, wait
    if kind == "read":
        return client.rwlock(book, ttl=TTL).read(), "r", 1, wait
    if kind == "write":
        return client.rwlock(book, ttl=TTL).write(), "x", 1, wait
    if kind == "multi":
        return client.multi(*BOOKS, ttl=TTL), "x", 1, wait
    gate = dice.choice(list(LIMITS))
    n = dice.choice([1, 1, 1, 2])
    # Some ask with a smaller limit, which counts for their own grants only.
    permits = dice.choice([LIMITS[gate], LIMITS[gate] - 1])
    return client.semaphore(gate, permits=permits, ttl=TTL), "p", n, {**wait, "n": n}


def in_threads(url: str, path: str, worker: str, threads: str = "3") -> None:
    client = Locks(url)

    def work(number: int) -> None:
        diary, dice = Diary(path, worker), random.Random(f"{worker} {number}")
        while True:
            lock, mode, n, how = _wish(client, dice)
            try:
                lease: Any = lock.acquire(**how)
            except LockError:
                continue
            diary.write("begin", lease, mode, n)
            _pause_in_thread(dice)
            if mode == "x" and len(lease.tenures) == 1 and dice.random() < 0.2:
                diary.write("end", lease, mode, n)
                try:
                    lease, mode = lease.downgrade(), "r"
                except LockError:
                    continue
                diary.write("begin", lease, mode, n)
                _pause_in_thread(dice)
            diary.write("end", lease, mode, n)
            try:
                lease.release()
            except LockError:
                pass

    for number in range(int(threads)):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    threading.Event().wait()


def _pause_in_thread(dice: random.Random) -> None:
    threading.Event().wait(dice.choice([0, 0.001, 0.01, 0.05]))


def in_tasks(url: str, path: str, worker: str, tasks: str = "3") -> None:
    async def work(client: AsyncLocks, number: int) -> None:
        diary, dice = Diary(path, worker), random.Random(f"{worker} {number}")
        while True:
            lock, mode, n, how = _wish(client, dice)
            try:
                async with asyncio.timeout(dice.choice([0.02, 5, 5, 5])):  # some are cancelled while they wait
                    lease: Any = await lock.acquire(**how)
            except (LockError, TimeoutError):
                continue
            diary.write("begin", lease, mode, n)
            await asyncio.sleep(dice.choice([0, 0.001, 0.01, 0.05]))
            diary.write("end", lease, mode, n)
            try:
                await lease.release()
            except LockError:
                pass

    async def everybody() -> None:
        async with AsyncLocks(url) as client, asyncio.TaskGroup() as group:
            for number in range(int(tasks)):
                group.create_task(work(client, number))

    asyncio.run(everybody())


class Referee:
    """Replays a diary. `kills` are (moment, worker)."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, Entry]] = defaultdict(dict)
        self.fences: dict[str, int] = defaultdict(int)
        self.faults: list[str] = []
        self.grants: dict[str, int] = defaultdict(int)
        self.together = 0
        """The most readers, or permits, at one time: without overlap the campaign tests nothing."""

    def judge(self, diary: list[Entry], kills: list[tuple[float, str]]) -> None:
        for entry in diary:
            while kills and kills[0][0] <= entry.at:
                self._bury(kills.pop(0)[1])
            if entry.what == "begin":
                self._begin(entry)
            else:
                self.held[entry.name].pop(entry.lease + entry.mode, None)

    def _bury(self, worker: str) -> None:
        for holders in self.held.values():
            for key in [key for key, entry in holders.items() if entry.worker == worker]:
                del holders[key]

    def _begin(self, entry: Entry) -> None:
        holders = self.held[entry.name]
        others = list(holders.values())
        if entry.mode == "x" and others:
            self.faults.append(f"{entry} while {others}")
        if any(each.mode == "x" for each in others):
            self.faults.append(f"{entry} while a writer holds it: {others}")
        if entry.mode == "p":
            out = entry.n + sum(each.n for each in others)
            if out > LIMITS[entry.name]:
                self.faults.append(f"{entry} makes {out} permits: {others}")
        holders[entry.lease + entry.mode] = entry
        self.grants[entry.mode] += 1
        if entry.mode != "x":
            self.together = max(self.together, sum(each.n for each in holders.values()))
