"""Clients of the service for campaigns: many at once in one process, who ask again elsewhere as the documents say."""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

__all__ = ["Client", "Gone", "ask"]


class Gone(Exception):
    """No answer: the instance is away, or has hung up, or says nothing."""


async def ask(url: str, verb: str, token: str, /, *, within: float = 60.0, **body: Any) -> tuple[int, dict[str, Any]]:
    """One request on a connection of its own: its status and answer. Cancelling it hangs up."""
    host, _, port = url.removeprefix("http://").partition(":")
    raw = json.dumps(body).encode()
    head = f"POST /v1/{verb} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    writer = None
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head.encode() + raw)
            answer = await reader.read(-1)
        first, _, text = answer.partition(b"\r\n\r\n")
        return int(first.split(b" ", 2)[1]), json.loads(text)
    except (OSError, EOFError, ValueError, IndexError, TimeoutError) as error:
        raise Gone(str(error)) from error
    finally:
        if writer is not None:
            writer.transport.abort()


class Client:
    """Asks one of several instances, and another one after an answer that did not come."""

    def __init__(self, urls: list[str], token: str, at: int = 0, *, patience: float = 60.0) -> None:
        self.urls = urls
        self.token = token
        self.at = at
        self.patience = patience
        self.pause = 0.05
        """The longest pause before it asks again."""
        self.away = 0
        """How often an answer did not come."""
        self._asking: asyncio.Future[Any] | None = None
        self._hung_up = False
        self.back_at = 0.0
        """When it asked again after that."""

    async def post(self, verb: str, **body: Any) -> tuple[int, dict[str, Any]]:
        """Until it is answered with anything but 503."""
        while True:
            url = self.urls[self.at % len(self.urls)]
            self._asking = asyncio.ensure_future(ask(url, verb, self.token, within=self.patience, **body))
            try:
                status, answer = await self._asking
                if status not in (502, 503, 504):
                    return status, answer
            except Gone:
                pass
            except asyncio.CancelledError:
                if not self._hung_up:
                    self._asking.cancel()
                    raise
                self._hung_up = False
            self.away += 1
            self.at += 1
            await asyncio.sleep(random.uniform(0.0, self.pause))
            self.back_at = time.monotonic()

    def leave(self, url: str) -> None:
        """Hangs up if it waits for an answer of this instance, and asks another one."""
        if self._asking is not None and not self._asking.done() and self.urls[self.at % len(self.urls)] == url:
            self._hung_up = True
            self._asking.cancel()

    async def acquire(self, **body: Any) -> dict[str, Any]:
        """Until it is granted, with the same request id."""
        while True:
            status, answer = await self.post("acquire", **body)
            if status == 200:
                return answer
            assert status == 202, answer
