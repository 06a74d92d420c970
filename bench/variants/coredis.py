"""coredis's Lock: asyncio only."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, ClassVar

from bench.variants import Runner, Variant

# By name, since the library exists only in this variant's environment, not where types are checked.
coredis: Any = importlib.import_module("coredis")


class Coredis(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("coredis",)

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        async with coredis.Redis.from_url(self.url) as client:
            yield _Runner(client)


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


VARIANT = Coredis
