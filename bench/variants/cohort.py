"""The subject with cohort=True: the threads or tasks of a process pass a lock along."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from bench.variants import Runner
from bench.variants.holdtight import Holdtight
from holdtight import Lease

if TYPE_CHECKING:
    from holdtight import AsyncLocks


class Cohort(Holdtight):
    def take(self, name: str) -> Lease:
        return self._locks.lock(name, ttl=30, cohort=True).acquire()

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        from holdtight import AsyncLocks

        async with AsyncLocks(self.targets()) as locks:
            yield _Runner(locks)


class _Runner:
    def __init__(self, locks: AsyncLocks) -> None:
        self._locks = locks

    async def repeat(self, name: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with self._locks.lock(name, ttl=30, cohort=True):
                done += 1
        return done


VARIANT = Cohort
