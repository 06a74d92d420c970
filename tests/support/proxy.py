"""A TCP proxy between client and server that breaks things on order, request by request, reply by reply.

    with Proxy(server.port) as proxy:
        lost = proxy.swallow_reply(b"EVALSHA")  # the next request with these bytes: executed, not answered
        ...                                     # a client at proxy.url
        lost.wait()

One thread moves the bytes; orders are carried out in it, and have taken effect when the call returns.
"""

from __future__ import annotations

import math
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self, TypeAlias, TypeVar, cast

from tests.support.framing import first_words
from tests.support.processes import PATIENCE
from tests.support.wire import Conditions, Direction, Fate, Wire

__all__ = ["Match", "Order", "Proxy", "Request"]

_T = TypeVar("_T")
Match: TypeAlias = bytes | Callable[[bytes], bool] | int
"""Selects a request: it contains these bytes, the function is true for its raw bytes, or it has this index."""


@dataclass(frozen=True)
class Request:
    """One request as it came. `index` counts from the proxy's start, or from its last `clear()`."""

    index: int
    connection: int
    raw: bytes

    @property
    def words(self) -> list[bytes]:
        return first_words(self.raw)


class Order:
    """Something to happen once, to the first request that matches after the order was given."""

    def __init__(self, proxy: Proxy, match: Match, fate: Fate) -> None:
        self._proxy, self.match, self._fate = proxy, match, fate
        self.request: Request | None = None

    def wait(self, within: float = PATIENCE) -> Self:
        """Waits until it has happened: the request or reply is swallowed, or the reply has arrived and is held."""
        if not self._fate.done.wait(within):
            state = "was not answered" if self.request else "did not come"
            raise AssertionError(f"within {within} s a request that matches {self.match!r} {state}")
        return self

    @property
    def done(self) -> bool:
        return self._fate.done.is_set()

    @property
    def reply(self) -> bytes:
        """What the server answered."""
        return self._fate.reply

    def release(self) -> None:
        """Lets a held reply go on, and all that waits behind it."""
        self._proxy.carry_out(self._fate.release)


class Proxy:
    """Listens on a port of its own and passes everything on to a server's port, until told otherwise."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._selector = selectors.DefaultSelector()
        self._bell, self._wake = socket.socketpair()
        self._listener: socket.socket | None = None
        self.port = 0
        self._conditions = Conditions()
        self._wires: dict[Wire, int] = {}
        self._numbers = 0
        self._orders: list[tuple[Order, Fate]] = []
        self._requests: list[Request] = []
        self._news = threading.Condition()
        self._todo: deque[Callable[[], None]] = deque()
        self._running = True
        self._watch(self._bell, selectors.EVENT_READ)
        self._listen()
        self._thread = threading.Thread(target=self._run, name=f"proxy-{self.port}", daemon=True)
        self._thread.start()

    # Looking

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def requests(self) -> list[Request]:
        """All requests since the start or the last `clear()`, in the order in which they came."""
        with self._news:
            return list(self._requests)

    def count(self, match: Match = b"") -> int:
        return sum(_fits(match, request) for request in self.requests)

    def clear(self) -> None:
        """Forgets the requests so far; the next has index 0."""
        with self._news:
            self._requests.clear()

    def wait_for_request(self, match: Match = b"", *, times: int = 1, within: float = PATIENCE) -> Request:
        """Waits until `times` matching requests have come since the last `clear()`; returns the last of them."""

        def nth() -> Request | None:
            found = [request for request in self._requests if _fits(match, request)]
            return found[times - 1] if len(found) >= times else None

        with self._news:
            found = self._news.wait_for(nth, within)
        if found is None:
            seen = [request.words[:1] for request in self.requests]
            raise AssertionError(f"within {within} s no request matched {match!r}; there were {seen}")
        return found

    @property
    def connections(self) -> int:
        """How many are open."""
        return self.carry_out(lambda: len(self._wires))

    # To one request

    def swallow_reply(self, match: Match = b"", *, cut: bool = False) -> Order:
        """The server carries out the request, but its reply gets lost; with `cut`, the connection breaks too."""
        return self._order(match, Fate("lose reply", cut))

    def swallow_request(self, match: Match = b"", *, cut: bool = False) -> Order:
        """The server never hears of it."""
        return self._order(match, Fate("lose request", cut))

    def hold_request(self, match: Match = b"", *, cut: bool = False) -> Order:
        """The request waits in the proxy, and everything behind it, until `release()`. Then the server gets it, even if
        the client has closed the connection long ago. With `cut`, the client's side is reset at once."""
        return self._order(match, Fate("hold request", cut))

    def hold_reply(self, match: Match = b"") -> Order:
        """The reply waits here, and everything behind it, until `release()`."""
        return self._order(match, Fate("hold reply"))

    def _order(self, match: Match, fate: Fate) -> Order:
        order = Order(self, match, fate)
        self.carry_out(lambda: self._orders.append((order, fate)))
        return order

    # To all connections

    def delay(self, *, requests: float = 0.0, replies: float = 0.0) -> None:
        """Seconds that everything is late from now on, each way."""
        self.carry_out(lambda: self._conditions.delay.update({"requests": requests, "replies": replies}))

    def split_replies(self, gap: float | None = 0.0002) -> None:
        """Replies go out byte by byte, so many seconds apart; None ends it."""

        def split() -> None:
            self._conditions.gap = gap

        self.carry_out(split)

    def pause(self, direction: Direction) -> None:
        """Nothing moves that way until `resume`; nothing is lost."""
        self.carry_out(lambda: self._conditions.paused.add(direction))

    def resume(self, direction: Direction) -> None:
        self.carry_out(lambda: self._conditions.paused.discard(direction))

    def cut(self) -> int:
        """Resets all connections, and says how many there were."""

        def reset_all() -> int:
            wires = list(self._wires)
            for wire in wires:
                wire.reset()
            self._tidy()
            return len(wires)

        return self.carry_out(reset_all)

    def refuse(self) -> None:
        """New connections are refused; those that are there stay."""
        self.carry_out(self._stop_listening)

    def accept(self) -> None:
        """New connections are taken again, on the same port."""
        self.carry_out(self._listen)

    def black_hole(self) -> None:
        """Accepts connections and keeps them open, but swallows all data on old and new ones."""

        def swallow() -> None:
            self._conditions.black_hole = True
            for wire in self._wires:
                wire.black_hole = True

        self.carry_out(swallow)

    def heal(self) -> None:
        """All is well again, orders are forgotten. Connections that were black holes are reset."""

        def heal() -> None:
            self._listen()
            for wire in self._wires:
                if wire.black_hole:
                    wire.reset()
            for _, fate in self._orders:
                fate.release()
            self._orders.clear()
            fresh = Conditions()
            self._conditions.delay.update(fresh.delay)
            self._conditions.paused.clear()
            self._conditions.gap, self._conditions.black_hole = None, False
            self._tidy()

        self.carry_out(heal)

    def close(self) -> None:
        if self._thread.is_alive():

            def end() -> None:
                self._running = False

            self.carry_out(end)
            self._thread.join(PATIENCE)
            assert not self._thread.is_alive(), "the proxy's thread does not end"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # The thread

    def carry_out(self, work: Callable[[], _T]) -> _T:
        """Runs `work` in the proxy's thread, between two polls of the sockets."""
        done: Future[_T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self._todo.append(run)
        self._wake.send(b"!")
        return done.result(PATIENCE)

    def _run(self) -> None:
        try:
            while self._running:
                for key, events in self._selector.select(self._prepare()):
                    self._serve(cast("socket.socket", key.fileobj), cast("Wire | None", key.data), events)
        finally:
            for wire in self._wires:
                wire.reset()
            self._tidy()
            self._stop_listening()
            self._selector.close()
            self._bell.close()
            self._wake.close()

    def _prepare(self) -> float | None:
        """Writes what is due; returns the seconds until more is due."""
        now = time.monotonic()
        next_due = min((wire.flush(now) for wire in self._wires), default=math.inf)
        self._tidy()
        for wire in self._wires:
            for sock in wire.sockets:
                self._watch(sock, wire.events(sock), wire)
        return None if next_due == math.inf else max(0.0, next_due - now)

    def _serve(self, sock: socket.socket, wire: Wire | None, events: int) -> None:
        if wire is not None:
            if wire.open:
                wire.serve(sock, events)
        elif sock is self._listener:
            self._take_in(sock)
        elif sock is self._bell:
            self._bell.recv(4096)
            while self._todo:
                self._todo.popleft()()

    def _take_in(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        server = None if self._conditions.black_hole else socket.socket()
        wire = Wire(client, server, self._conditions, self._record, self._unwatch)
        self._wires[wire] = self._numbers
        self._numbers += 1
        if server is not None and not _connected(server, self._server_port):
            wire.reset()

    def _record(self, wire: Wire, raw: bytes) -> Fate | None:
        with self._news:
            request = Request(len(self._requests), self._wires[wire], raw)
            self._requests.append(request)
            self._news.notify_all()
        if wire.black_hole:
            return None
        for order, fate in self._orders:
            if order.request is None and _fits(order.match, request):
                order.request = request
                return fate
        return None

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
            self.port = self._listener.getsockname()[1]
            self._watch(self._listener, selectors.EVENT_READ)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._watch(self._listener, 0)
            self._listener.close()
            self._listener = None

    def _tidy(self) -> None:
        for wire in [wire for wire in self._wires if not wire.open]:
            del self._wires[wire]

    def _watch(self, sock: socket.socket, events: int, wire: Wire | None = None) -> None:
        known = self._selector.get_map().get(sock)
        if known is None and events:
            self._selector.register(sock, events, wire)
        elif known is not None and not events:
            self._selector.unregister(sock)
        elif known is not None and known.events != events:
            self._selector.modify(sock, events, wire)

    def _unwatch(self, wire: Wire) -> None:
        for sock in wire.sockets:
            self._watch(sock, 0)


def _fits(match: Match, request: Request) -> bool:
    if isinstance(match, int):
        return request.index == match
    return match in request.raw if isinstance(match, bytes) else match(request.raw)


def _connected(server: socket.socket, port: int) -> bool:
    try:
        server.connect(("127.0.0.1", port))
    except BlockingIOError:
        pass  # in progress; the first write shows whether it succeeds
    except OSError:
        return False
    return True
