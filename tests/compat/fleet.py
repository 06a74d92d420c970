"""A fleet in the middle of a migration: processes with redis-py's locks and with ours, blocking and asyncio, all
contend for one key. They record what they do on a shared board, which is plain memory without locks.

# Invariants of the board:
# - a cell is written by its worker alone, and by the test once that worker is dead;
# - `last` and `changes` are written only by the process that is inside.
"""

from __future__ import annotations

import asyncio
import mmap
import random
import struct
import time
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
from redis.exceptions import LockNotOwnedError

from tests.compat.face import CLASSES, COLOURS, MAKERS, Colour, Maker

__all__ = ["KINDS", "TTL", "Board", "work"]

KINDS: list[tuple[Maker, Colour]] = [(maker, colour) for maker in MAKERS for colour in COLOURS]
TTL = 2.0
WAIT = 30.0
MOST_WORKERS = 64
_CELL = struct.Struct("<d4Q")  # inside since (0: outside), taken, violations, lost, waited in vain
_HEAD = struct.Struct("<Q")
_SIZE = len(KINDS)


class Board:
    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            path.write_bytes(bytes(8 + 8 * _SIZE * _SIZE + _CELL.size * MOST_WORKERS))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def close(self) -> None:
        self._memory.close()

    def _place(self, worker: int) -> int:
        return 8 + 8 * _SIZE * _SIZE + _CELL.size * worker

    def cell(self, worker: int) -> list[Any]:
        return list(_CELL.unpack_from(self._memory, self._place(worker)))

    def put(self, worker: int, cell: list[Any]) -> None:
        _CELL.pack_into(self._memory, self._place(worker), *cell)

    def inside(self, worker: int) -> bool:
        return bool(self.cell(worker)[0])

    def note_death(self, worker: int) -> None:
        cell = self.cell(worker)
        cell[0] = 0.0
        self.put(worker, cell)

    def enter(self, worker: int, kind: int) -> None:
        """Records the other processes that are inside. A process that has been inside for half of its ttl does not
        count: on a busy machine it may have been stopped for that long."""
        now = time.monotonic()
        cell = self.cell(worker)
        cell[0] = now
        cell[1] += 1
        self.put(worker, cell)
        for other in range(MOST_WORKERS):
            since = self.cell(other)[0]
            if other != worker and since and now - since < TTL / 2:
                cell[2] += 1
                self.put(worker, cell)
        (last,) = _HEAD.unpack_from(self._memory, 0)
        if last:
            at = 8 + 8 * ((last - 1) * _SIZE + kind)
            _HEAD.pack_into(self._memory, at, _HEAD.unpack_from(self._memory, at)[0] + 1)
        _HEAD.pack_into(self._memory, 0, kind + 1)

    def leave(self, worker: int) -> None:
        cell = self.cell(worker)
        cell[0] = 0.0
        self.put(worker, cell)

    def count(self, worker: int, column: int) -> None:
        cell = self.cell(worker)
        cell[column] += 1
        self.put(worker, cell)

    def total(self, column: int) -> int:
        return sum(self.cell(worker)[column] for worker in range(MOST_WORKERS))

    def changes(self, before: int, after: int) -> int:
        """How often a holder with one kind of lock followed a holder with the other kind."""
        found: int = _HEAD.unpack_from(self._memory, 8 + 8 * (before * _SIZE + after))[0]
        return found


TAKEN, VIOLATIONS, LOST, IN_VAIN = 1, 2, 3, 4


class _Broken:
    """A lock that lets every process in: the test must notice it."""

    def __init__(self, client: Any, name: str, **options: Any) -> None: ...

    def acquire(self) -> bool:
        return True

    def release(self) -> None: ...


def work(kind: str, worker: str, url: str, board: str, seconds: str) -> None:
    """The program of a worker, in a process of its own."""
    number = int(worker)
    at = len(KINDS) - 1 if kind == "broken" else int(kind)
    maker, colour = KINDS[at]
    chance = random.Random(number)
    until = time.monotonic() + float(seconds)
    options = {"timeout": TTL, "sleep": 0.005, "blocking_timeout": WAIT}
    memory = Board(Path(board))
    print("working", flush=True)
    if kind == "broken" or colour == "sync":
        client = redis.Redis.from_url(url)
        make: Any = _Broken if kind == "broken" else CLASSES[KINDS[at]]
        while time.monotonic() < until:
            lock = make(client, "fleet", **options)
            if lock.acquire():
                memory.enter(number, at)
                time.sleep(chance.uniform(0, 0.004))
                memory.leave(number)
                try:
                    lock.release()
                except LockNotOwnedError:
                    memory.count(number, LOST)
            else:
                memory.count(number, IN_VAIN)
            time.sleep(chance.uniform(0, 0.01))
    else:
        asyncio.run(_work(maker, number, at, url, memory, chance, until, options))


async def _work(
    maker: str, number: int, at: int, url: str, memory: Board, chance: random.Random, until: float, options: Any
) -> None:
    client = redis.asyncio.Redis.from_url(url)
    while time.monotonic() < until:
        lock = CLASSES[KINDS[at]](client, "fleet", **options)
        if await lock.acquire():
            memory.enter(number, at)
            await asyncio.sleep(chance.uniform(0, 0.004))
            memory.leave(number)
            try:
                await lock.release()
            except LockNotOwnedError:
                memory.count(number, LOST)
        else:
            memory.count(number, IN_VAIN)
        await asyncio.sleep(chance.uniform(0, 0.01))
    await client.aclose()
