"""python-redis-lock, on redis-py with hiredis; without its renewal thread, which would only slow it down."""

from __future__ import annotations

import importlib
from typing import Any

from bench.variants import Variant

# By name, since the libraries exist only in this variant's environment, not where types are checked.
redis: Any = importlib.import_module("redis")
redis_lock: Any = importlib.import_module("redis_lock")


class PythonRedisLock(Variant):
    PACKAGES = ("python-redis-lock", "redis", "hiredis")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        # Its waiters block in BLPOP for as long as the ttl: a socket deadline would end them.
        self._client = redis.Redis.from_url(url, socket_timeout=None)

    def pair(self, name: str) -> None:
        with redis_lock.Lock(self._client, name, expire=30):
            pass

    def take(self, name: str) -> object:
        lock = redis_lock.Lock(self._client, name, expire=30)
        lock.acquire()
        return lock

    def give(self, held: Any) -> None:
        held.release()

    def close(self) -> None:
        self._client.close()


VARIANT = PythonRedisLock
