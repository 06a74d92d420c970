"""Clients of both colours that take locks all the time, while a test makes their servers fail over.

Everybody increments counters in SQLite under a lock, claim-first: raise the stored fence to yours, refused if a higher
one is there; then read; then write under the same condition. What a holder believes is written down with its times, so
that afterwards one can say how often two held a name at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdtight import AsyncLocks, LeaseLost, LockError, Locks

__all__ = ["Held", "Load"]

NAMES = ("a", "b", "c")
EACH = 3
"""Threads, and as many tasks."""
KEPT = 10
"""Leases that a client keeps all the time, and that another one waits for."""
HOLD = 0.005


class Held(NamedTuple):
    """One lease, from when its holder had it until the holder released it, or was told that it is lost."""

    name: str
    fence: int
    since: float
    until: float
    lost: bool


class Load:
    def __init__(self, database: Path, sync_url: str, asyncio_url: str, *, ttl: float = 10.0) -> None:
        self._database = database
        self._sync_url, self._asyncio_url, self._ttl = sync_url, asyncio_url, ttl
        self._stop = threading.Event()
        self._late = threading.Event()
        self._late_ones = threading.Event()
        self._guard = threading.Lock()
        self.held: list[Held] = []
        self.increments = 0
        self._rounds = 0
        self.stale = 0
        """Increments that the database refused: another holder had claimed."""
        self.unexpected: list[BaseException] = []
        self.times: list[float] = []
        """From when a Sentinel named a new master until somebody had a lease."""
        with self._connected() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("CREATE TABLE counters (name TEXT PRIMARY KEY, fence INTEGER, value INTEGER)")
            connection.executemany("INSERT INTO counters VALUES (?, 0, 0)", [(name,) for name in NAMES])

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._database, timeout=30, isolation_level=None)) as connection:
            yield connection

    def counted(self) -> int:
        with self._connected() as connection:
            return int(connection.execute("SELECT sum(value) FROM counters").fetchone()[0])

    @property
    def grants(self) -> int:
        return len(self.held)

    def overlaps(self) -> list[tuple[Held, Held]]:
        """Pairs of leases on one name whose holders both relied on them."""
        found: list[tuple[Held, Held]] = []
        by_name: dict[str, list[Held]] = defaultdict(list)
        for each in sorted(self.held, key=lambda each: each.since):
            found += [(before, each) for before in by_name[each.name] if before.until > each.since]
            by_name[each.name] = [before for before in by_name[each.name] if before.until > each.since] + [each]
        return found

    def fences_repeat(self) -> bool:
        fences = [(each.name, each.fence) for each in self.held]
        return len(set(fences)) < len(fences)

    # Running.

    def __enter__(self) -> Load:
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in self._parts()]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not [thread for thread in self._threads if thread.is_alive()]

    def _parts(self) -> list[Any]:
        return [self._blocking, self._keep, self._wait_for_kept, lambda: asyncio.run(self._on_a_loop())]

    def _run(self, part: Any) -> None:
        try:
            part()
        except BaseException as error:
            self.unexpected.append(error)

    def _note(self, name: str, lease: Any, since: float, until: float) -> None:
        with self._guard:
            self.held.append(Held(name, lease.fence, since, until, lease.lost))

    def _increment(self, connection: sqlite3.Connection, name: str, fence: int) -> None:
        done = self._incremented(connection, name, fence)
        with self._guard:
            self.increments += done
            self.stale += not done

    def _incremented(self, connection: sqlite3.Connection, name: str, fence: int) -> bool:
        claim = "UPDATE counters SET fence = ? WHERE name = ? AND fence <= ?"
        if not connection.execute(claim, (fence, name, fence)).rowcount:
            return False
        value = connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()[0]
        time.sleep(HOLD)  # in which another holder may do the same
        write = "UPDATE counters SET value = ? WHERE name = ? AND fence = ?"
        return bool(connection.execute(write, (value + 1, name, fence)).rowcount)

    def _blocking(self) -> None:
        with Locks(self._sync_url, ttl=self._ttl) as locks:
            threads = [threading.Thread(target=self._run, args=(lambda: self._loop(locks),)) for _ in range(EACH)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _loop(self, locks: Locks) -> None:
        with self._connected() as connection:
            turn = 0
            while not self._stop.is_set():
                turn += 1
                name = NAMES[turn % len(NAMES)]
                try:
                    with locks.lock(name).acquire(wait=20) as lease:
                        since = time.monotonic()
                        try:
                            self._increment(connection, name, lease.fence)
                        finally:
                            self._note(name, lease, since, time.monotonic())
                except (LeaseLost, LockError):
                    pass  # told, or not to be had for now

    async def _on_a_loop(self) -> None:
        async with AsyncLocks(self._asyncio_url, ttl=self._ttl) as locks:
            await asyncio.gather(*[self._task(locks) for _ in range(EACH)])

    async def _task(self, locks: AsyncLocks) -> None:
        turn = 0
        while not self._stop.is_set():
            turn += 1
            name = NAMES[turn % len(NAMES)]
            try:
                async with await locks.lock(name).acquire(wait=20) as lease:
                    since = time.monotonic()
                    try:
                        await asyncio.to_thread(self._elsewhere, name, lease.fence)
                    finally:
                        self._note(name, lease, since, time.monotonic())
            except (LeaseLost, LockError):
                pass

    def _elsewhere(self, name: str, fence: int) -> None:
        with self._connected() as connection:
            self._increment(connection, name, fence)

    # Leases that are held all the time, and those that wait for them.

    def keep_more(self) -> None:
        """Takes more leases that are held from now on; returns when they are."""
        self._late_ones.clear()
        self._rounds += 1
        self._late.set()
        assert self._late_ones.wait(30)

    def _late_names(self) -> list[str]:
        return [f"late:{self._rounds}:{number}" for number in range(KEPT)]

    def _keep(self) -> None:
        with Locks(self._sync_url, ttl=self._ttl) as locks:
            kept = [(name, locks.lock(name).acquire(), time.monotonic()) for name in map(_kept, range(KEPT))]
            ends: dict[str, float] = {}
            while not self._stop.wait(0.01):
                if self._late.is_set():
                    self._late.clear()
                    kept += [(name, locks.lock(name).acquire(), time.monotonic()) for name in self._late_names()]
                    self._late_ones.set()
                for name, lease, _ in kept:
                    if lease.lost:
                        ends.setdefault(name, time.monotonic())
            for name, lease, since in kept:
                self._note(name, lease, since, ends.get(name, time.monotonic()))
                if not lease.lost:
                    lease.release()

    def _wait_for_kept(self) -> None:
        with Locks(self._asyncio_url, ttl=self._ttl) as locks:
            while not self._stop.is_set():
                for name in (*map(_kept, range(KEPT)), *self._late_names()):
                    try:
                        with locks.lock(name).acquire(wait=0.02) as lease:
                            since = time.monotonic()
                            time.sleep(HOLD)
                            self._note(name, lease, since, time.monotonic())
                    except (LeaseLost, LockError):
                        pass
                    if self._stop.wait(0.01):
                        break


def _kept(number: int) -> str:
    return f"kept:{number}"
