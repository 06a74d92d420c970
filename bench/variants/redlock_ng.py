"""redlock-ng, blocking and asyncio, as its documentation says."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from bench.variants import Runner, Variant

# By name, since the library exists only in this variant's environment, not where types are checked.
redlock: Any = importlib.import_module("redlock")


class RedlockNg(Variant):
    PACKAGES = ("redlock-ng", "redis", "hiredis")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._manager = redlock.Redlock(url.split(","))

    def pair(self, name: str) -> None:
        with self._manager.lock(name, ttl=30_000) as lock:
            if not lock.valid:
                raise RuntimeError(f"{name} was not free")

    def take(self, name: str) -> object:
        lock = self._manager.acquire(name, ttl=30_000)
        if lock is None:
            raise RuntimeError(f"{name} was not free")
        return lock

    def give(self, held: Any) -> None:
        self._manager.release(held)

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        manager = redlock.AsyncRedlock(self.url.split(","))
        try:
            yield _Runner(manager)
        finally:
            for client in manager.client.instances:
                await client.aclose()


class _Runner:
    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def repeat(self, name: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            await self.give(await self.take(name))
            done += 1
        return done

    async def take(self, name: str) -> object:
        lock = await self._manager.acquire(name, ttl=30_000)
        if lock is None:
            raise RuntimeError(f"{name} was not free")
        return lock

    async def give(self, held: Any) -> None:
        await self._manager.release(held)


VARIANT = RedlockNg
