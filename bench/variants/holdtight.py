"""The subject."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

from bench.variants import Runner, Variant
from holdtight import Lease, Locks

if TYPE_CHECKING:
    from holdtight import AsyncLease, AsyncLocks


class Holdtight(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("holdtight", "hiredis")
    SPIN = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._locks = Locks(self.targets(), spin=self.SPIN)

    @property
    def locks(self) -> Locks:
        return self._locks

    def targets(self) -> str | list[str]:
        return self.url

    def pair(self, name: str) -> None:
        with self._locks.lock(name, ttl=30):
            pass

    def take(self, name: str) -> Lease:
        return self._locks.lock(name, ttl=30).acquire()

    def give(self, held: object) -> None:
        assert isinstance(held, Lease)
        held.release()

    def hold(self, names: list[str], ttl: float) -> None:
        asyncio.run(_hold(self.targets(), names, ttl))

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        from holdtight import AsyncLocks  # only here: the blocking rows measure a process without it

        async with AsyncLocks(self.targets()) as locks:
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

    async def renamed(self, prefix: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with self._locks.lock(f"{prefix}:{done}", ttl=30):
                done += 1
        return done

    async def take(self, name: str) -> AsyncLease:
        return await self._locks.lock(name, ttl=30).acquire()

    async def give(self, held: AsyncLease) -> None:
        await held.release()


async def _hold(targets: str | list[str], names: list[str], ttl: float) -> None:
    """The leases are dropped at the end; the locks stay on the server until their ttl is over."""
    from holdtight import AsyncLocks

    locks = AsyncLocks(targets)
    for start in range(0, len(names), 1000):
        part = names[start : start + 1000]
        await asyncio.gather(*(locks.lock(name, ttl=ttl, renew=False).acquire(wait=0) for name in part))
    await locks.aclose()


VARIANT = Holdtight
