"""aioredlock on one server: asyncio only."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, ClassVar

from bench.variants import Runner, Variant

# By name, since the library exists only in this variant's environment, not where types are checked.
aioredlock: Any = importlib.import_module("aioredlock")


class Aioredlock(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("aioredlock", "aioredis")

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        manager = aioredlock.Aioredlock([self.url])
        try:
            yield _Runner(manager)
        finally:
            await manager.destroy()


class _Runner:
    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def repeat(self, name: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with await self._manager.lock(name, lock_timeout=30):
                done += 1
        return done

    async def renamed(self, prefix: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with await self._manager.lock(f"{prefix}:{done}", lock_timeout=30):
                done += 1
        return done


VARIANT = Aioredlock
