"""A keeper without its thread: the test decides the time and the servers' answers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from holdtight.base.plan import LinkDown
from holdtight.keeper.keeper import Keeper

_fds = itertools.count(10_000)


class Link:
    """The keeper's connection, scripted: records what was sent, and delivers what the test puts in."""

    def __init__(self) -> None:
        self._fd = next(_fds)
        self.writes: list[list[bytes]] = []
        self.incoming: list[Any] = []
        self.broken: LinkDown | None = None
        self.closed = False
        self.takes = 1 << 30
        self.inbox = b""
        """Without one, the keeper listens to no alarm."""

    def heed(self, channel: bytes, hear: Callable[[bytes], object]) -> bytes:
        return b"heed " + channel + b"\n"

    def fileno(self) -> int:
        return self._fd

    def stop_blocking(self) -> None: ...

    def push_out(self, data: bytes) -> bytes:
        if self.broken is not None:
            raise self.broken
        if data:
            self.writes.append(data[: self.takes].splitlines())
        return data[self.takes :]

    def pump(self) -> list[Any]:
        if self.broken is not None:
            raise self.broken
        arrived, self.incoming = self.incoming, []
        return arrived

    def close(self) -> None:
        self.closed = True


class Client:
    known = True
    namespace = "ht"
    id = b"client-id"
    record_seconds = 60
    detached = False
    sharded = False

    def __init__(self) -> None:
        self.recorded_until = 0.0


class Place:
    """A server: `open` gives what the test prepared, raises it, or blocks on it."""

    in_process = False
    acks = None
    probe_seconds = 0.0
    runtime: Any = None

    def __init__(self, name: str = "a") -> None:
        self.display = name
        self.client = Client()
        self.refreshers: list[Callable[[], None]] = []
        self.links: list[Link] = []
        self.opening: Callable[[], Link] = Link
        self.opened = 0
        self.spare: Callable[[], Link | None] = lambda: None
        self.handed_on: dict[str, Any] = {}

        self.deserts_on = ""
        """The error reply after which its connection is not to be used again."""

    def keeps(self, link: object) -> None: ...

    def of(self, charge: object) -> Place:
        return self

    @property
    def whose(self) -> Place:
        return self

    record_place = whose

    def redirected(self, charge: object, said: str) -> None: ...

    def broken(self) -> None: ...

    def probe(self, charge: Charge) -> bytes:
        return b"probe " + charge.name.encode() + b"\n"

    def doubt(self, said: str) -> bool:
        return bool(self.deserts_on) and said.startswith(self.deserts_on)

    def open(self, timeout: float) -> Link:
        self.opened += 1
        link = self.opening()
        self.links.append(link)
        return link

    @property
    def link(self) -> Link:
        return self.links[-1]


class Charge:
    """Records what the keeper did with it."""

    def __init__(self, place: Place, interval: float = 10.0, deadline: float = 1e9, name: str = "x") -> None:
        self.place: Any = place
        self.interval = interval
        self.deadline = deadline
        self.name = name
        self.alive = True
        self.log: list[str] = []
        self.well = True
        self.nothing_to_ask = False
        self.fails_in: str | None = None

    def request(self, now: float) -> bytes | None:
        self._note("request")
        return None if self.nothing_to_ask or not self.alive else self.name.encode() + b"\n"

    def answered(self, reply: Any, sent: float) -> bool:
        self._note(f"answered {reply}")
        return self.well

    def unanswered(self, cause: str) -> None:
        self._note(f"unanswered {cause}")

    def overdue(self) -> None:
        self.alive = False
        self._note("overdue")

    def late(self, by: float) -> None:
        self._note(f"late {by:g}")

    def _note(self, what: str) -> None:
        self.log.append(what)
        if self.fails_in is not None and what.startswith(self.fails_in):
            raise ValueError(f"a charge that fails in {what}")


class Still(Keeper):
    """A keeper without a thread: `turn(now)` does what its thread would do at that moment."""

    def __init__(self) -> None:
        super().__init__(lambda: self.now)
        self.now = 1000.0
        self.wakes = 0
        self.watched: dict[int, bool] = {}
        self._requests = threading.Semaphore(0)

    def wake(self) -> None:
        self.wakes += 1

    def run_soon(self, what: Callable[[], None]) -> None:
        super().run_soon(what)
        self._requests.release()

    def register(self, fd: int, *, writing: bool) -> None:
        self.watched[fd] = writing

    def unregister(self, fd: int) -> None:
        self.watched.pop(fd, None)

    def do_requested(self) -> None:
        while self._requested:
            self._requests.acquire()
            self._requested.popleft()()

    def turn(self, now: float | None = None) -> float:
        """One turn of the thread, without its sleep. Returns until when it would sleep."""
        if now is not None:
            self.now = now
        self.do_requested()
        return self._do_due(self.now)

    def connected(self, place: Place) -> Link:
        """Waits for the thread that connects, and goes on."""
        assert self._requests.acquire(timeout=10), "the connecting thread did not report"
        self._requests.release()
        self.turn()
        return place.link

    def hears(self, place: Place, *replies: Any) -> None:
        """The server answers."""
        place.link.incoming += replies
        connection: Any = self._connections[place]  # type: ignore[index]
        connection.ready(self.now)

    @property
    def agenda(self) -> list[float]:
        return sorted(each[0] for each in self._agenda)


def due(keeper: Still, *charges: Charge) -> None:
    for charge in charges:
        keeper.add(charge, keeper.now - charge.interval)
    keeper.turn()


def sent(place: Place) -> list[bytes]:
    return [line for write in place.link.writes for line in write]


def asked(charge: Charge) -> int:
    return charge.log.count("request")


def connected(keeper: Still, place: Place) -> Link:
    due(keeper, Charge(place, interval=12))
    link = keeper.connected(place)
    keeper.hears(place, 1)
    keeper.turn()
    link.writes.clear()
    return link


def begins(keeper: Still) -> None:
    """The keeper reaches the first charge now, and then other threads keep it from running."""
    assert keeper.backlog.stretch(keeper.now, keeper.now, 10.0) == 1
