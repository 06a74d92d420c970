"""The subject."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from bench.variants import Runner, Variant
from holdtight import Lease, Locks

if TYPE_CHECKING:
    from holdtight import AsyncLease, AsyncLocks


class Holdtight(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("holdtight", "hiredis")
    SPIN = True
    ACKS = 0

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._locks = Locks(self.targets(), spin=self.SPIN, acks=self.ACKS)

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

        async with AsyncLocks(self.targets(), acks=self.ACKS) as locks:
            yield _Runner(locks)

    def store(self, value: Any, count: int) -> None:
        """Values of `single_flight` for `hit`."""
        self.hit = self._locks.single_flight("report:{number}", ttl=300)(lambda number: value)
        for number in range(count):
            self.hit(number)

    @asynccontextmanager
    async def flights(self, value: Any) -> AsyncIterator[Any]:
        from holdtight import AsyncLocks

        async with AsyncLocks(self.targets()) as locks:

            @locks.single_flight("report:{number}", ttl=300)
            async def report(number: int) -> Any:
                return value

            yield report

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

    async def among(self, names: Iterator[str], until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with self._locks.lock(next(names), ttl=30):
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
