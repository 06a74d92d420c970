"""The subject once more: a free read-write lock, taken to read."""

from __future__ import annotations

from bench.variants.holdtight import Holdtight


class Reader(Holdtight):
    def pair(self, name: str) -> None:
        with self._locks.rwlock(name, ttl=30).read():
            pass


VARIANT = Reader
