"""redlock-py, as its documentation says."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from bench.variants import Variant

# By name, since the library exists only in this variant's environment, not where types are checked.
redlock: Any = importlib.import_module("redlock")


class RedlockPy(Variant):
    PACKAGES = ("redlock-py", "redis", "hiredis")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        logging.disable(logging.ERROR)  # it logs a trace for every node that it cannot unlock
        self._manager = redlock.Redlock(url.split(","))

    def pair(self, name: str) -> None:
        self.give(self.take(name))

    def take(self, name: str) -> object:
        lock = self._manager.lock(name, 30_000)
        if not lock:
            raise RuntimeError(f"{name} was not free")
        return lock

    def give(self, held: Any) -> None:
        self._manager.unlock(held)


VARIANT = RedlockPy
