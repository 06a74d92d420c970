"""HTTP/1.1 with limits on time and size that uvicorn does not have: a slow client costs one connection, for seconds."""

import asyncio
import os
from functools import lru_cache
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from holdtight.server.problems import Problem

__all__ = ["HEADER_BYTES", "SECONDS", "Protocol", "answered_in_one_write", "whole_body"]

SECONDS = 10.0
"""For the head of a request, and for its body."""
LATE = 0.5
"""If a timer is this many seconds late, this process stood still, and its clients are not to blame."""
HEADER_BYTES = 32 * 1024
_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class Protocol(HttpToolsProtocol):
    _timer: asyncio.TimerHandle | None = None
    _due = 0.0
    _in_head = True
    _head = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        while data:
            part, data = data, b""
            if self._in_head:  # what comes behind the largest head is a body, or too much
                room = HEADER_BYTES + 1 - self._head
                part, data = part[:room], part[room:]
                self._head += len(part)
            super().data_received(part)
            if self.transport.is_closing():
                return
            if self._in_head and self._head > HEADER_BYTES:
                self._refuse(431, "HEADERS_TOO_LARGE", f"the head of a request has at most {HEADER_BYTES} bytes")
                return

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

    def _arm(self, seconds: float = SECONDS) -> None:
        self._disarm()
        self._due = self.loop.time() + seconds
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.loop.time() > self._due + LATE:
            self._arm(LATE)  # this process stood still: the request may have come meanwhile, and is read first
            return
        self._refuse(408, "REQUEST_TIMEOUT", f"a request must arrive within {SECONDS:.0f} s")

    def send_400_response(self, msg: str) -> None:
        """Answers input that is not HTTP/1.1 in the same form as any other error."""
        self._refuse(400, "BAD_REQUEST", "this is not a request of HTTP/1.1")

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
            head += b"cache-control: no-store\r\nx-content-type-options: nosniff\r\nx-request-id: %b\r\n" % (
                os.urandom(8).hex().encode()
            )
            self.transport.write(head + b"connection: close\r\n\r\n" + body)
        self.transport.close()


def whole_body(send: Any) -> bytes | None:
    """The body of a request that uvicorn has read to its end; None if there is more to come, or with another server.
    It stands for the first message of `receive`."""
    cycle = getattr(send, "__self__", None)
    if type(cycle) is not RequestResponseCycle or cycle.more_body or cycle.disconnected or cycle.response_started:
        return None
    found = bytes(cycle.body)
    cycle.body = bytearray()
    cycle.message_event.clear()
    return found


@lru_cache(16)
def _lines(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """The headers that uvicorn adds to every answer: the date, which is another one each second."""
    return b"".join(b"%b: %b\r\n" % header for header in headers)


def answered_in_one_write(send: Any, status: int, head: bytes, body: bytes) -> bool:
    """Answers a request that uvicorn has read, without its checks of every header: `head` is whole lines of ours, with
    the content-length. False if that is not possible: another server, or a client that reads slowly or is gone."""
    cycle = getattr(send, "__self__", None)
    if type(cycle) is not RequestResponseCycle or cycle.response_started or cycle.disconnected:
        return False
    if cycle.flow.write_paused or cycle.access_log:
        return False
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
    cycle.transport.write(b"".join((STATUS_LINE[status], _lines(tuple(cycle.default_headers)), head, end, body)))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True
