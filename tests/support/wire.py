"""One client's connection through the proxy: two pipes, and what is known of the conversation.

A pipe is one direction. It cuts the data of its source into RESP values, checks them, and queues pieces with a due
time for its sink; delays and splitting only set due times. A paused pipe neither reads nor
writes, so the kernel's buffers fill as on a broken network: nothing is lost, and the server still gets
the requests of a client that has gone away meanwhile.

Replies belong to requests in order. Messages that the server pushes (RESP3 pushes, messages of a RESP2
subscriber) are no replies, but the confirmation of a SUBSCRIBE is one. Other data than RESP (TLS) passes uncounted.
"""

from __future__ import annotations

import math
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tests.support.framing import first_words, take_values

__all__ = ["Conditions", "Direction", "Fate", "Piece", "Wire"]

Direction: TypeAlias = Literal["requests", "replies"]
_SUBSCRIBING = {b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE"}
_UNSUBSCRIBING = {b"UNSUBSCRIBE", b"PUNSUBSCRIBE", b"SUNSUBSCRIBE"}
_CONFIRMING = {word.lower() for word in _SUBSCRIBING | _UNSUBSCRIBING}
_MESSAGES = {b"message", b"pmessage", b"smessage"}


@dataclass
class Conditions:
    """The current conditions of all connections."""

    delay: dict[Direction, float] = field(default_factory=lambda: {"requests": 0.0, "replies": 0.0})
    paused: set[Direction] = field(default_factory=set[Direction])
    gap: float | None = None  # seconds between the bytes of replies, if these are split
    black_hole: bool = False


@dataclass(eq=False)
class Piece:
    due: float
    data: bytes


@dataclass(eq=False)
class Fate:
    """The fate of one request and its reply."""

    what: Literal["lose request", "lose reply", "hold request", "hold reply"]
    cut: bool = False
    reply: bytes = b""
    held: list[Piece] = field(default_factory=list[Piece])
    done: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        for piece in self.held:
            piece.due = 0.0


@dataclass(eq=False)
class _Expected:
    """A reply that the server owes; a SUBSCRIBE is answered by several parts."""

    parts: int
    subscribing: bool
    fate: Fate | None


@dataclass(eq=False)
class _Pipe:
    direction: Direction
    source: socket.socket | None
    sink: socket.socket | None
    unframed: bytearray = field(default_factory=bytearray)
    pieces: deque[Piece] = field(default_factory=deque[Piece])
    last_due: float = 0.0
    ended: bool = False  # the source has ended
    blocked: bool = False  # the sink's buffer is full
    closed: bool = False  # the sink has been told of the end


class Wire:
    """`on_request` gets every request and decides its fate; `on_close` is called before the sockets close."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket | None,
        conditions: Conditions,
        on_request: Callable[[Wire, bytes], Fate | None],
        on_close: Callable[[Wire], None],
    ) -> None:
        self.client, self.server = client, server
        self.black_hole = server is None
        self.open = True
        self._conditions, self._on_request, self._on_close = conditions, on_request, on_close
        self._requests = _Pipe("requests", client, server)
        self._replies = _Pipe("replies", server, client)
        self._expected: deque[_Expected] = deque()
        self._subscriber = False
        self._opaque: bool | None = None  # until the first byte tells
        for sock in self.sockets:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def sockets(self) -> list[socket.socket]:
        client = [self.client] if self._requests.source is not None else []
        return client if self.server is None else [*client, self.server]

    @property
    def _pipes(self) -> tuple[_Pipe, _Pipe]:
        return self._requests, self._replies

    def events(self, sock: socket.socket) -> int:
        """The events to poll for on this socket."""
        events = 0
        for pipe in self._pipes:
            if pipe.direction not in self._conditions.paused:
                if sock is pipe.source and not pipe.ended:
                    events |= selectors.EVENT_READ
                if sock is pipe.sink and pipe.blocked:
                    events |= selectors.EVENT_WRITE
        return events

    def serve(self, sock: socket.socket, events: int) -> None:
        """Handles the events of a socket."""
        for pipe in self._pipes:
            if sock is pipe.sink and events & selectors.EVENT_WRITE:
                pipe.blocked = False
            if sock is pipe.source and events & selectors.EVENT_READ and self.open:
                self._read(pipe, sock)

    def flush(self, now: float) -> float:
        """Writes what is due; says when more will be."""
        next_due = math.inf
        for pipe in self._pipes:
            if pipe.direction not in self._conditions.paused and self.open:
                self._write(pipe, now)
                if pipe.pieces and not pipe.blocked:
                    next_due = min(next_due, pipe.pieces[0].due)
        if self.open and all(pipe.closed or pipe.source is None for pipe in self._pipes):
            self._close()
        return next_due

    def reset(self) -> None:
        """Resets both sides, without an orderly end."""
        if self.open:
            for sock in self.sockets:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._close()

    def _drop_client(self) -> None:
        """The client gets a reset, the server does not notice: queued data still goes to the server."""
        self._on_close(self)
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.close()
        self._requests.source = self._replies.sink = None
        self._requests.ended = True

    def _close(self) -> None:
        self.open = False
        self._on_close(self)
        for sock in self.sockets:
            sock.close()

    def _read(self, pipe: _Pipe, source: socket.socket) -> None:
        try:
            data = source.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            self.reset()
            return
        if self._opaque is None and data:
            self._opaque = data[:1] == b"\x16"
        pipe.unframed += data
        pipe.ended = not data
        for value in [] if self._opaque else take_values(pipe.unframed):
            if pipe is self._requests:
                self._request(value)
            else:
                self._reply(value)
            if not self.open:
                return
        if self._opaque or pipe.ended:
            self._queue(pipe, bytes(pipe.unframed))
            pipe.unframed.clear()
        if pipe.ended and not (self.black_hole and self.server):  # a black hole does not tell the other side
            pipe.pieces.append(Piece(pipe.last_due, b""))

    def _request(self, raw: bytes) -> None:
        fate = self._on_request(self, raw)
        if self.black_hole:
            return
        if fate is not None and fate.what == "lose request":
            self._settle(fate)
            return
        words = first_words(raw)
        verb = words[0].upper() if words else b""
        subscribing = verb in _SUBSCRIBING or verb in _UNSUBSCRIBING
        held = fate if fate is not None and fate.what == "hold request" else None
        self._expected.append(_Expected(max(1, len(words) - 1) if subscribing else 1, subscribing, fate))
        self._queue(self._requests, raw, held_by=held)
        if held is not None:
            if held.cut:
                self._drop_client()
            held.done.set()

    def _reply(self, raw: bytes) -> None:
        answered = self._answered(raw)
        fate = answered.fate if answered else None
        if answered is None or fate is None or fate.done.is_set():
            if fate is not None and fate.what == "hold request":
                fate.reply += raw
            self._queue(self._replies, raw)
            return
        fate.reply += raw
        if fate.what == "hold reply":
            self._queue(self._replies, raw, held_by=fate)
        if answered.parts == 0:
            self._settle(fate)

    def _answered(self, raw: bytes) -> _Expected | None:
        """The request that this is a reply to, or None if it is none; its last part takes it off the list."""
        head = self._expected[0] if self._expected else None
        pushed, array = raw[:1] == b">", raw[:1] == b"*"
        kind = b""
        if pushed or (array and (self._subscriber or (head is not None and head.subscribing))):
            kind = next(iter(first_words(raw, 1)), b"")
        if kind in _CONFIRMING:
            self._subscriber = True
            if head is None or not head.subscribing:
                return None
            head.parts -= 1
        elif pushed or kind in _MESSAGES or head is None:
            return None
        else:
            head.parts = 0
        if head.parts == 0:
            self._expected.popleft()
        return head

    def _settle(self, fate: Fate) -> None:
        if fate.cut:
            self.reset()
        fate.done.set()

    def _queue(self, pipe: _Pipe, data: bytes, held_by: Fate | None = None) -> None:
        if self.black_hole or not data:
            return
        delay, gap = self._conditions.delay[pipe.direction], self._conditions.gap
        if held_by is not None:
            held_by.held.append(Piece(math.inf, data))
            pipe.pieces.append(held_by.held[-1])
        elif gap is not None and pipe is self._replies:
            due = max(pipe.last_due, time.monotonic() + delay)
            for at in range(len(data)):
                due += gap
                pipe.pieces.append(Piece(due, data[at : at + 1]))
            pipe.last_due = due
        elif delay:
            pipe.last_due = max(pipe.last_due, time.monotonic() + delay)
            pipe.pieces.append(Piece(pipe.last_due, data))
        elif pipe.pieces and pipe.pieces[-1].due == 0.0:
            pipe.pieces[-1].data += data
        else:
            pipe.pieces.append(Piece(0.0, data))

    def _write(self, pipe: _Pipe, now: float) -> None:
        while pipe.pieces and not pipe.blocked and pipe.pieces[0].due <= now:
            piece = pipe.pieces[0]
            if pipe.sink is not None and not self.black_hole:
                try:
                    if piece.data:
                        piece.data = piece.data[pipe.sink.send(piece.data) :]
                        if piece.data:
                            continue
                    else:
                        pipe.sink.shutdown(socket.SHUT_WR)
                except BlockingIOError:
                    pipe.blocked = True
                    return
                except OSError:
                    self.reset()
                    return
            pipe.pieces.popleft()
            pipe.closed = pipe.ended and not pipe.pieces
