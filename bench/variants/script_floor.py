"""The floor that runs holdtight's own scripts: one asyncio connection, requests packed beforehand.

It pays for the server's work and for one future a request, and for nothing else: no owner, no lease, no
renewal, no deadline. What holdtight's asyncio side adds to this is its own cost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import hiredis

from bench.variants import Runner, Variant
from holdtight import AsyncLocks
from holdtight.base.clock import boottime
from holdtight.stores.redis.resp import bulk

OWNER = b"0123456789abcdefghijklmn"
INBOX = bulk("ht:inbox:0123456789abcdef:1")
AT_ONCE = 32  # requests a write: with more, client and server work by turns instead of side by side


class ScriptFloor(Variant):
    PACKAGES = ("hiredis",)

    @asynccontextmanager
    async def runner(self, tasks: int) -> AsyncIterator[Runner]:
        parts = urlsplit(self.url)
        loop = asyncio.get_running_loop()
        async with AsyncLocks(self.url) as locks:
            async with locks.lock("warm-up"):
                pass  # now the server knows the scripts, and we know its time
            transport, line = await loop.create_connection(
                lambda: _Line(locks), parts.hostname or "", parts.port or 6379
            )
            try:
                yield line
            finally:
                transport.close()


class _Line(asyncio.Protocol):
    def __init__(self, locks: AsyncLocks) -> None:
        self._locks = locks
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._waiting.popleft().set_result(reply)

    def _ask(self, request: bytes) -> asyncio.Future[Any]:
        answer = self._loop.create_future()
        self._waiting.append(answer)
        self._unsent.append(request)
        if len(self._unsent) == 1:
            self._loop.call_soon(self._flush)
        elif len(self._unsent) >= AT_ONCE:
            self._flush()
        return answer

    def _flush(self) -> None:
        if self._unsent:
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()

    async def repeat(self, name: str, until: float) -> int:
        prepared = self._locks.lock(name, ttl=30).prepared
        # May still act in an hour's time: a request of holdtight's own would be refused after two seconds.
        step = prepared.attempt_step(OWNER, now=boottime(), patience=3600, queue=True)
        attempt, release = step.packed(INBOX), prepared.release_step(OWNER).packed(INBOX)
        done = 0
        while perf_counter() < until:
            granted = await self._ask(attempt)
            released = await self._ask(release)
            if not isinstance(granted, bytes) or released != 1:
                raise RuntimeError(f"{name} was not free: {granted!r}, {released!r}")
            done += 1
        return done


VARIANT = ScriptFloor
