"""The subject with the history of the lock service installed."""

from __future__ import annotations

from bench.variants.holdtight import Holdtight
from holdtight import history


class Historic(Holdtight):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        history.install(self._locks)


VARIANT = Historic
