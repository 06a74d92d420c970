"""pottery's Redlock, blocking and asyncio, with the socket timeout of a second that its documentation uses."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

from bench.variants import Runner, Variant

# By name, since the libraries exist only in this variant's environment, not where types are checked.
redis: Any = importlib.import_module("redis")
pottery: Any = importlib.import_module("pottery")


class Pottery(Variant):
    PACKAGES = ("pottery", "redis", "hiredis")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._masters = {redis.Redis.from_url(each, socket_timeout=1) for each in url.split(",")}

    def pair(self, name: str) -> None:
        with pottery.Redlock(key=name, masters=self._masters, auto_release_time=30):
            pass

    def take(self, name: str) -> object:
        lock = pottery.Redlock(key=name, masters=self._masters, auto_release_time=30)
        if not lock.acquire():
            raise RuntimeError(f"{name} was not free")
        return lock

    def give(self, held: Any) -> None:
        held.release()

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        aio: Any = importlib.import_module("redis.asyncio")
        masters = {aio.Redis.from_url(each, socket_timeout=1) for each in self.url.split(",")}
        try:
            yield _Runner(masters)
        finally:
            for client in masters:
                await client.aclose()


class _Runner:
    def __init__(self, masters: set[Any]) -> None:
        self._masters = masters

    async def repeat(self, name: str, until: float) -> int:
        done = 0
        while perf_counter() < until:
            async with pottery.AIORedlock(key=name, masters=self._masters, auto_release_time=30):
                done += 1
        return done

    async def take(self, name: str) -> object:
        lock = pottery.AIORedlock(key=name, masters=self._masters, auto_release_time=30)
        if not await lock.acquire():
            raise RuntimeError(f"{name} was not free")
        return lock

    async def give(self, held: Any) -> None:
        await held.release()


VARIANT = Pottery
