"""A reader of an event stream of a service in this process: httpx gives an answer only when it has ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from tests.service.calling import Caller

__all__ = ["Stream", "listening"]


class Stream:
    """What a reader got so far. A reader that does not read makes the service wait: `reads` is then clear."""

    def __init__(self) -> None:
        self.status = 0
        self.begun = asyncio.get_running_loop().time()
        self.ended = False
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.comments: list[str] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.news = asyncio.Condition()

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.ended = not message.get("more_body", False)
            for block in message["body"].decode().split("\n\n"):
                self.comments += [line[2:] for line in block.splitlines() if line.startswith(": ")]
                kind = [line[7:] for line in block.splitlines() if line.startswith("event: ")]
                if kind:
                    self.events.append((kind[0], json.loads(block.rpartition("data: ")[2])))
        async with self.news:
            self.news.notify_all()

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [data for each, data in self.events if each == kind]

    async def until(self, seen: Any) -> None:
        async with asyncio.timeout(20), self.news:
            await self.news.wait_for(seen)


@asynccontextmanager
async def listening(
    one: Caller, headers: dict[str, str], *, method: str = "GET", **params: str
) -> AsyncIterator[Stream]:
    found, hung_up = Stream(), asyncio.Event()

    async def receive() -> Any:
        await hung_up.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": method,
        "path": "/v1/events",
        "query_string": urlencode(params).encode(),
        "headers": [(name.encode(), value.encode()) for name, value in {"host": "127.0.0.1", **headers}.items()],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
    }
    task = asyncio.create_task(one.app(scope, receive, found.send))
    try:
        await found.until(lambda: found.status)
        yield found
    finally:
        hung_up.set()
        found.reads.set()
        async with asyncio.timeout(20):
            await task
