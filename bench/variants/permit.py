"""The subject once more: one permit of a free semaphore."""

from __future__ import annotations

from bench.variants.holdtight import Holdtight


class Permit(Holdtight):
    def pair(self, name: str) -> None:
        with self._locks.semaphore(name, permits=10, ttl=30):
            pass


VARIANT = Permit
