"""dogpile.cache on Redis, with its lock on the server."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from bench.variants import Variant

# By name, since the library exists only in this variant's environment, not where types are checked.
dogpile: Any = importlib.import_module("dogpile.cache")


class Dogpile(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("dogpile.cache", "redis", "hiredis")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        arguments = {"url": url, "distributed_lock": True, "redis_expiration_time": 600}
        self._region = dogpile.make_region().configure("dogpile.cache.redis", expiration_time=300, arguments=arguments)

    def store(self, value: Any, count: int) -> None:
        @self._region.cache_on_arguments()  # type: ignore[untyped-decorator]
        def report(number: int) -> Any:
            return value

        self.hit = report
        for number in range(count):
            report(number)


VARIANT = Dogpile
