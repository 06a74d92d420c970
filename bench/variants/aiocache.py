"""aiocache on Redis, with JSON."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit

from bench.variants import Variant

# By name, since the library exists only in this variant's environment, not where types are checked.
library: Any = importlib.import_module("aiocache")
serializers: Any = importlib.import_module("aiocache.serializers")


class Aiocache(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("aiocache", "redis", "hiredis")

    @asynccontextmanager
    async def flights(self, value: Any) -> AsyncIterator[Any]:
        parts = urlsplit(self.url)

        @library.cached(  # type: ignore[untyped-decorator]
            ttl=300,
            cache=library.Cache.REDIS,
            serializer=serializers.JsonSerializer(),
            endpoint=parts.hostname,
            port=parts.port,
            key_builder=lambda function, number: f"aiocache:{number}",
        )
        async def report(number: int) -> Any:
            return value

        yield report


VARIANT = Aiocache
