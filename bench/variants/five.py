"""The subject on a quorum of five nodes. They are new, so that somebody has to vouch for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from bench.variants import Runner, Variant
from holdtight import Lease, Locks

if TYPE_CHECKING:
    from holdtight import AsyncLease, AsyncLocks


class Five(Variant):
    PACKAGES = ("holdtight", "hiredis")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._locks = Locks(url.split(","))
        self._locks.bless()

    def pair(self, name: str) -> None:
        with self._locks.lock(name, ttl=30):
            pass

    def take(self, name: str) -> Lease:
        return self._locks.lock(name, ttl=30).acquire()

    def give(self, held: object) -> None:
        assert isinstance(held, Lease)
        held.release()

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        from holdtight import AsyncLocks  # only here: the blocking rows measure a process without it

        async with AsyncLocks(self.url.split(",")) as locks:
            yield _Runner(locks)

    def close(self) -> None:
        self._locks.close()


class _Runner:
    def __init__(self, locks: AsyncLocks) -> None:
        self._locks = locks

    async def repeat(self, name: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with self._locks.lock(name, ttl=30):
                done += 1
        return done

    async def take(self, name: str) -> AsyncLease:
        return await self._locks.lock(name, ttl=30).acquire()

    async def give(self, held: AsyncLease) -> None:
        await held.release()


VARIANT = Five
