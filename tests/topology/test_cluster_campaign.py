"""Work goes on under failovers and resharding: updates that claim first lose nothing, and fences are unique.

Replication is asynchronous, so two may hold a lock after a failover: such overlaps are counted and printed, not
excluded.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, pairwise

import pytest

from holdtight import AsyncLocks, LockError, Locks
from tests.support.clusters import Cluster, slot_of
from tests.support.servers import VALKEY_9

NAMES_PER_SHARD = 2
WORKERS = 3
TTL = 5


class Ledger:
    """Counters in a database that accepts only the highest fence so far."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.execute("CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER, fence INTEGER)")
        self._guard = threading.Lock()
        self.done: dict[str, int] = {}
        self.fences: list[tuple[str, int]] = []
        self.refused = 0
        self.spans: list[tuple[str, float, float]] = []

    def _execute(self, text: str, *values: object) -> sqlite3.Cursor:
        with self._guard:
            return self._database.execute(text, values)

    def claim(self, name: str, fence: int) -> int | None:
        """The value to add to; None if somebody with a higher fence was there."""
        self._execute("INSERT OR IGNORE INTO counter VALUES (?, 0, 0)", name)
        claimed = self._execute("UPDATE counter SET fence = ? WHERE name = ? AND fence < ?", fence, name, fence)
        if claimed.rowcount != 1:
            return None
        with self._guard:
            self.fences.append((name, fence))
        return int(self._execute("SELECT value FROM counter WHERE name = ?", name).fetchone()[0])

    def write(self, name: str, fence: int, value: int) -> None:
        written = self._execute("UPDATE counter SET value = ? WHERE name = ? AND fence = ?", value, name, fence)
        with self._guard:
            if written.rowcount == 1:
                self.done[name] = self.done.get(name, 0) + 1
            else:
                self.refused += 1

    def values(self) -> dict[str, int]:
        return {name: value for name, value in self._execute("SELECT name, value FROM counter") if value}

    def overlaps(self) -> int:
        found = 0
        for name in {span[0] for span in self.spans}:
            own = sorted(span[1:] for span in self.spans if span[0] == name)
            found += sum(later[0] < earlier[1] for earlier, later in pairwise(own))
        return found


class Load:
    """Threads and tasks that increment."""

    def __init__(self, cluster: Cluster, names: list[str]) -> None:
        self.ledger, self._names, self._over = Ledger(), names, False
        self._url = cluster.url
        self.failures: list[str] = []

    def _blocking(self, locks: Locks, at: int) -> None:
        while not self._over:
            at += 1
            name = self._names[at % len(self._names)]
            try:
                with locks.lock(name, wait=10) as lease:
                    begun = time.monotonic()
                    value = self.ledger.claim(name, lease.fence)
                    time.sleep(0.001)
                    if value is not None and not lease.lost:
                        self.ledger.write(name, lease.fence, value + 1)
                    if not lease.lost:
                        self.ledger.spans.append((name, begun, time.monotonic()))
            except LockError as error:
                self.failures.append(type(error).__name__)

    async def _task(self, locks: AsyncLocks, at: int) -> None:
        while not self._over:
            at += 1
            name = self._names[at % len(self._names)]
            try:
                lease = await locks.lock(name, wait=10).acquire()
                begun = time.monotonic()
                value = self.ledger.claim(name, lease.fence)
                await asyncio.sleep(0.001)
                if value is not None and not lease.lost:
                    self.ledger.write(name, lease.fence, value + 1)
                if not lease.lost:
                    self.ledger.spans.append((name, begun, time.monotonic()))
                await lease.release()
            except LockError as error:
                self.failures.append(type(error).__name__)

    async def _tasks(self) -> None:
        async with AsyncLocks(self._url, ttl=TTL) as locks:
            await asyncio.gather(*(self._task(locks, 5 * at) for at in range(WORKERS)))

    @contextmanager
    def running(self) -> Iterator[Ledger]:
        with Locks(self._url, ttl=TTL) as locks:
            threads = [threading.Thread(target=self._blocking, args=(locks, 7 * at)) for at in range(WORKERS)]
            threads.append(threading.Thread(target=lambda: asyncio.run(self._tasks())))
            for each in threads:
                each.start()
            try:
                yield self.ledger
            finally:
                self._over = True
                for each in threads:
                    each.join(60)
            assert not any(each.is_alive() for each in threads)


def crash(cluster: Cluster, names: list[str]) -> None:
    old = cluster.masters[0]
    old.kill()
    cluster.replaced(old)
    time.sleep(1)
    cluster.heal()


def hang(cluster: Cluster, names: list[str]) -> None:
    old = cluster.masters[0]
    old.pause()
    cluster.replaced(old)
    time.sleep(1)
    cluster.heal()


def order(cluster: Cluster, names: list[str]) -> None:
    cluster.failover(cluster.masters[0])
    cluster.agreed()


def reshard(cluster: Cluster, names: list[str]) -> None:
    """Key by key, with a stall."""
    slot = slot_of(names[0])
    source = cluster.serving(slot)[0]
    target = next(each for each in cluster.masters if each is not source)
    with cluster.moving(slot, target) as move:
        time.sleep(0.3)
        for key in move.keys()[:1]:
            move.move(key)
        time.sleep(0.3)


def migrate(cluster: Cluster, names: list[str]) -> None:
    if cluster.flavour is VALKEY_9:
        slot = slot_of(names[0])
        source = cluster.serving(slot)[0]
        cluster.migrate(slot, next(each for each in cluster.masters if each is not source))


FAULTS: dict[str, Callable[[Cluster, list[str]], None]] = {
    "crash": crash,
    "hung": hang,
    "orderly": order,
    "resharding": reshard,
    "migrateslots": migrate,
}
SHORT = {"crash", "resharding", "migrateslots"}


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        *((fault, 1) for fault in FAULTS if fault in SHORT),
        *(pytest.param(fault, 10, marks=pytest.mark.long) for fault in FAULTS),
    ],
)
def test_claim_first_increments_lose_nothing(cluster: Cluster, fault: str, times: int) -> None:
    names = [name for each in cluster.masters for name in islice(cluster.names_on(each), NAMES_PER_SHARD)]
    load = Load(cluster, names)
    with load.running() as ledger:
        for _ in range(times):
            time.sleep(0.5)
            before = len(ledger.fences)
            FAULTS[fault](cluster, names)
            end = time.monotonic() + 30
            while len(ledger.fences) < before + 20:
                assert time.monotonic() < end, f"work does not go on: {load.failures[-5:]}"
                time.sleep(0.01)
    assert ledger.values() == ledger.done, "an update was lost"
    assert len(set(ledger.fences)) == len(ledger.fences), "a fence was given twice"
    print(
        f"{fault} x{times}: {sum(ledger.done.values())} increments, {ledger.overlaps()} overlaps, "
        f"{ledger.refused} writes refused by their fence, {len(load.failures)} errors {sorted(set(load.failures))}"
    )
