"""cashews on Redis."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from bench.variants import Variant

# By name, since the library exists only in this variant's environment, not where types are checked.
library: Any = importlib.import_module("cashews")


class Cashews(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("cashews", "redis", "hiredis")

    @asynccontextmanager
    async def flights(self, value: Any) -> AsyncIterator[Any]:
        cache = library.Cache()
        # As it comes. With max_connections=64 and a timeout for the wait it has about 3 hits where it has 4 so.
        cache.setup(self.url)

        @cache(ttl=300, key="cashews:{number}")  # type: ignore[untyped-decorator]
        async def report(number: int) -> Any:
            return value

        try:
            yield report
        finally:
            await cache.close()


VARIANT = Cashews
