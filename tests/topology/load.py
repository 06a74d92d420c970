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
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from holdtight import AsyncLocks, LeaseLost, LockError, Locks
from tests.support.processes import wait_for

__all__ = ["Held", "Kept", "Load"]

NAMES = ("a", "b", "c")
EACH = 3
"""Threads, and as many tasks."""
KEPT = tuple(f"kept:{number}" for number in range(10))
"""Leases that are kept all the time, half of them by either colour. Others wait for them."""
HOLD = 0.005
LOOK = 0.01
"""How often a keeper of leases looks which of them it has lost."""


class Held(NamedTuple):
    """One lease, from when its holder had it until the holder released it, or was told that it is lost."""

    name: str
    fence: int
    since: float
    until: float
    lost: bool


class Kept(NamedTuple):
    name: str
    lease: Any
    since: float


class Load:
    def __init__(
        self,
        database: Path,
        sync_url: str,
        asyncio_url: str,
        *,
        ttl: float = 10.0,
        names: Sequence[str] = NAMES,
        kept: Sequence[str] = KEPT,
    ) -> None:
        self._database = database
        self._sync_url, self._asyncio_url, self._ttl = sync_url, asyncio_url, ttl
        self._names, self._kept = names, kept
        self._stop = threading.Event()
        self._late = threading.Event()
        self._late_ones = threading.Event()
        self._guard = threading.Lock()
        self.held: list[Held] = []
        self.kept: list[Kept] = []
        """All leases that somebody has kept, or keeps."""
        self.waiting: list[str] = []
        """The kept names in whose line somebody still waits: one caller of either colour."""
        self.errors: Counter[str] = Counter()
        """Why callers did not get a lease, or lost it."""
        self.increments = 0
        self._late_names: Sequence[str] = ()
        self.stale = 0
        """Increments that the database refused: another holder had claimed."""
        self.unexpected: list[BaseException] = []
        with self._connected() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("CREATE TABLE counters (name TEXT PRIMARY KEY, fence INTEGER, value INTEGER)")
            connection.executemany("INSERT INTO counters VALUES (?, 0, 0)", [(name,) for name in names])

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

    def go_on(self, number: int = 50) -> None:
        """Waits for more grants."""
        before = self.grants
        wait_for(lambda: self.grants > before + number or self.unexpected, within=40, what="more grants")

    def overlaps(self) -> list[tuple[Held, Held]]:
        """Pairs of leases on one name whose holders both relied on them."""
        found: list[tuple[Held, Held]] = []
        by_name: dict[str, list[Held]] = defaultdict(list)
        for each in sorted(self.held, key=lambda each: each.since):
            found += [(before, each) for before in by_name[each.name] if before.until > each.since]
            by_name[each.name] = [before for before in by_name[each.name] if before.until > each.since] + [each]
        return found

    def repeated(self) -> int:
        """Fences that were given twice."""
        fences = [(each.name, each.fence) for each in self.held]
        return len(fences) - len(set(fences))

    # Running.

    def __enter__(self) -> Load:
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in self._parts()]
        for thread in self._threads:
            thread.start()
        wait_for(lambda: len(self.waiting) == 2 or self.unexpected, what="leases that are kept, and waited for")
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not [thread for thread in self._threads if thread.is_alive()]

    def _parts(self) -> list[Any]:
        return [
            *(self._blocking, self._keep, self._wait_in_line, self._wait_for_kept),
            lambda: asyncio.run(self._on_a_loop()),
        ]

    def _run(self, part: Any) -> None:
        try:
            part()
        except BaseException as error:
            self.unexpected.append(error)

    def _note(self, name: str, lease: Any, since: float, until: float) -> None:
        with self._guard:
            self.held.append(Held(name, lease.fence, since, until, lease.lost))

    def _note_error(self, error: BaseException) -> None:
        with self._guard:
            self.errors[type(error).__name__] += 1

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
                name = self._names[turn % len(self._names)]
                try:
                    with locks.lock(name).acquire(wait=20) as lease:
                        since = time.monotonic()
                        try:
                            self._increment(connection, name, lease.fence)
                        finally:
                            self._note(name, lease, since, time.monotonic())
                except (LeaseLost, LockError) as error:
                    self._note_error(error)  # told, or not to be had for now

    async def _on_a_loop(self) -> None:
        async with AsyncLocks(self._asyncio_url, ttl=self._ttl) as locks:
            tasks = [self._task(locks) for _ in range(EACH)]
            await asyncio.gather(*tasks, self._keep_on_a_loop(locks), self._wait_on_a_loop(locks, self._kept[0]))

    async def _task(self, locks: AsyncLocks) -> None:
        turn = 0
        while not self._stop.is_set():
            turn += 1
            name = self._names[turn % len(self._names)]
            try:
                async with await locks.lock(name).acquire(wait=20) as lease:
                    since = time.monotonic()
                    try:
                        await asyncio.to_thread(self._elsewhere, name, lease.fence)
                    finally:
                        self._note(name, lease, since, time.monotonic())
            except (LeaseLost, LockError) as error:
                self._note_error(error)

    def _elsewhere(self, name: str, fence: int) -> None:
        with self._connected() as connection:
            self._increment(connection, name, fence)

    # Leases that are held all the time, and those that wait for them.

    def keep_more(self, names: Sequence[str]) -> None:
        """Takes more leases that are held from now on; returns when they are."""
        self._late_ones.clear()
        self._late_names = names
        self._late.set()
        assert self._late_ones.wait(30)

    @property
    def _all_kept(self) -> bool:
        return len(self.kept) >= len(self._kept)

    def _end_of(self, kept: list[Kept], ends: dict[str, float]) -> None:
        for each in kept:
            if each.lease.lost:
                ends.setdefault(each.name, time.monotonic())

    def _keep(self) -> None:
        with Locks(self._sync_url, ttl=self._ttl) as locks:
            kept: list[Kept] = []

            def take(names: Sequence[str]) -> None:
                taken = [Kept(name, locks.lock(name).acquire(), time.monotonic()) for name in names]
                kept.extend(taken)
                self.kept.extend(taken)

            take(self._kept[::2])
            ends: dict[str, float] = {}
            while not self._stop.wait(LOOK):
                if self._late.is_set():
                    self._late.clear()
                    take(self._late_names)
                    self._late_ones.set()
                self._end_of(kept, ends)
            for name, lease, since in kept:
                self._note(name, lease, since, ends.get(name, time.monotonic()))
                if not lease.lost:
                    lease.release()

    async def _keep_on_a_loop(self, locks: AsyncLocks) -> None:
        kept = [Kept(name, await locks.lock(name).acquire(), time.monotonic()) for name in self._kept[1::2]]
        self.kept.extend(kept)
        ends: dict[str, float] = {}
        while not self._stop.is_set():
            await asyncio.sleep(LOOK)
            self._end_of(kept, ends)
        for name, lease, since in kept:
            self._note(name, lease, since, ends.get(name, time.monotonic()))
            if not lease.lost:
                await lease.release()

    def _wait_in_line(self) -> None:
        """For a lease of the other colour, until that is lost, or released at the end."""
        name = self._kept[1]
        wait_for(lambda: self._all_kept, what="leases that are kept")
        self.waiting.append(name)
        with Locks(self._sync_url, ttl=self._ttl) as locks:
            while name in self.waiting:
                try:
                    with locks.lock(name).acquire(wait=600) as lease:
                        self.waiting.remove(name)
                        since = time.monotonic()
                        self._note(name, lease, since, time.monotonic())
                except (LeaseLost, LockError) as error:
                    self._note_error(error)

    async def _wait_on_a_loop(self, locks: AsyncLocks, name: str) -> None:
        while not self._all_kept:
            await asyncio.sleep(LOOK)
        self.waiting.append(name)
        while name in self.waiting:
            try:
                async with await locks.lock(name).acquire(wait=600) as lease:
                    self.waiting.remove(name)
                    since = time.monotonic()
                    self._note(name, lease, since, time.monotonic())
            except (LeaseLost, LockError) as error:
                self._note_error(error)

    def _wait_for_kept(self) -> None:
        """For a moment, for one after another: who has lost a lease shares it with this one."""
        with Locks(self._asyncio_url, ttl=self._ttl) as locks:
            while not self._stop.is_set():
                for name in (*self._kept, *self._late_names):
                    try:
                        with locks.lock(name).acquire(wait=0.02) as lease:
                            since = time.monotonic()
                            time.sleep(HOLD)
                            self._note(name, lease, since, time.monotonic())
                    except (LeaseLost, LockError):
                        pass
                    if self._stop.wait(0.01):
                        break
