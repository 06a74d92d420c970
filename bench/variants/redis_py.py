"""redis-py's Lock, with hiredis."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, ClassVar

from bench.variants import Runner, Variant

# By name, since the library exists only in this variant's environment, not where types are checked.
redis: Any = importlib.import_module("redis")


class RedisPy(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("redis", "hiredis")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._client = redis.Redis.from_url(url)

    def pair(self, name: str) -> None:
        with self._client.lock(name, timeout=30):
            pass

    def take(self, name: str) -> object:
        lock = self._client.lock(name, timeout=30)
        lock.acquire()
        return lock

    def give(self, held: Any) -> None:
        held.release()

    def hold(self, names: list[str], ttl: float) -> None:
        for name in names:
            if not self._client.lock(name, timeout=ttl).acquire(blocking=False):
                raise RuntimeError(f"{name} is not free")

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        aio: Any = importlib.import_module("redis.asyncio")
        pool = aio.BlockingConnectionPool.from_url(self.url, max_connections=64, timeout=None)
        client = aio.Redis(connection_pool=pool)
        try:
            yield _Runner(client)
        finally:
            await client.aclose()
            await pool.aclose()

    def close(self) -> None:
        self._client.close()


class _Runner:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def repeat(self, name: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with self._client.lock(name, timeout=30):
                done += 1
        return done

    async def renamed(self, prefix: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with self._client.lock(f"{prefix}:{done}", timeout=30):
                done += 1
        return done


VARIANT = RedisPy
