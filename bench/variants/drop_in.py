"""holdtight's drop-in for redis-py's lock, made by redis-py's own client."""

from __future__ import annotations

from typing import Any

from bench.variants.redis_py import RedisPy
from holdtight.compat.redis_py import Lock


class DropIn(RedisPy):
    PACKAGES = ("holdtight", "redis", "hiredis")

    def pair(self, name: str) -> None:
        with self._client.lock(name, timeout=30, lock_class=Lock):
            pass

    def take(self, name: str) -> Any:
        lock = self._client.lock(name, timeout=30, lock_class=Lock)
        lock.acquire()
        return lock


VARIANT = DropIn
