"""HTTP/1.1 with limits on time and size that uvicorn does not have: a slow client costs one connection, for seconds."""

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdtight.server.problems import Problem

__all__ = ["HEADER_BYTES", "SECONDS", "Protocol"]

SECONDS = 10.0
"""For the head of a request, and for its body."""
HEADER_BYTES = 32 * 1024
_REASONS = {408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class Protocol(HttpToolsProtocol):
    _timer: asyncio.TimerHandle | None = None
    _in_head = True
    _head = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head += len(data)
            if self._head > HEADER_BYTES + 64 * 1024:  # a part of it may be a body: the parser knows, below
                self._refuse(431, "HEADERS_TOO_LARGE", f"the head of a request has at most {HEADER_BYTES} bytes")
                return
        super().data_received(data)
        if self._in_head and self._head > HEADER_BYTES and not self.transport.is_closing():
            self._refuse(431, "HEADERS_TOO_LARGE", f"the head of a request has at most {HEADER_BYTES} bytes")

    def on_message_begin(self) -> None:
        self._in_head = True
        self._arm()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._head = False, 0
        self._arm()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._disarm()
        self._in_head = True
        super().on_message_complete()

    def _arm(self) -> None:
        self._disarm()
        self._timer = self.loop.call_later(SECONDS, self._too_slow)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        self._refuse(408, "REQUEST_TIMEOUT", f"a request must arrive within {SECONDS:.0f} s")

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answers if nothing was answered yet, and closes. A request under way learns that its client is gone."""
        self._disarm()
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        if cycle is None or cycle.response_complete:
            body = msgspec.json.encode(Problem(status, code, detail).as_dict())
            head = b"HTTP/1.1 %d %b\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n" % (
                status,
                _REASONS[status],
                len(body),
            )
            self.transport.write(head + b"cache-control: no-store\r\nconnection: close\r\n\r\n" + body)
        self.transport.close()
