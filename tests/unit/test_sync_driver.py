"""The blocking driver and its pool, on scripted links: what they do when a connection misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdtight import Locks, Unavailable
from holdtight.base.clock import boottime
from holdtight.base.plan import Bell, LinkDown, Park
from holdtight.errors import LockTimeout, NotOwner
from holdtight.keeper import keeper as keeper_module
from holdtight.stores.redis.resp import bulk
from holdtight.sync.driver import Driver
from holdtight.sync.lock import Lock
from tests.unit.keeping import Still

OTHER = b"h" * 24
DOWN = LinkDown("the server closed the connection", sent=True, stale=True)


class Line:
    """A link whose every call is answered from a list; an exception is raised, a function is called."""

    def __init__(self, *answers: Any, inbox: bytes = b"inbox") -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.owed = 0
        self.inbox = inbox
        self.inbox_word = bulk(inbox)
        self.closed = False
        self.bells: list[Bell | None] = []

    def call(self, request: bytes, timeout: float) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def park(self, owner: bytes, until: float) -> Bell | None:
        return self.bells.pop(0)

    def send(self, request: bytes) -> None:
        self.asked.append(request)
        self.owed += 1

    def reply(self) -> Any:
        self.owed -= 1
        return self.answers.pop(0) if self.answers and not callable(self.answers[0]) else 1

    def look_out(self) -> None: ...

    def set_timeout(self, timeout: float) -> None: ...

    def close(self) -> None:
        self.closed = True


class Server:
    """A client whose connections are scripted: idle ones first, then those that are opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.locks = Locks("redis://127.0.0.1:1", namespace="driver", connect_timeout=0.05)
        self.locks.client.lead = 0.0
        self.locks.client.recorded_until = float("inf")
        self.keeper = Still()
        self.opens: list[Line] = []
        runtime = keeper_module.runtime
        monkeypatch.setattr(runtime, "keeper", self.keeper)
        monkeypatch.setattr(self.locks.place, "open", self._open)

    def _open(self, timeout: float) -> Any:
        if not self.opens:
            raise LinkDown("connection refused", sent=False)
        return self.opens.pop(0)

    def idle(self, *lines: Line) -> None:
        links: Any = lines[::-1]
        self.locks.transport.idle[:] = links

    def lock(self) -> Lock:
        return self.locks.lock("orders", ttl=10)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server(monkeypatch)
    yield server
    server.idle()
    server.locks.close()


def fence() -> bytes:
    return b"%d" % int(boottime() * 1e6)


def denied() -> list[Any]:
    return [0, int(boottime() * 1000), OTHER, 3000, 0, 3000]


# Asking and giving back.


def test_a_free_lock_is_one_request_and_its_release_another(server: Server) -> None:
    line = Line(fence, 1)
    server.idle(line)
    lease = server.lock().acquire()
    lease.release()
    lease.release()
    assert len(line.asked) == 2
    (left,) = server.locks.transport.idle
    assert left is line  # type: ignore[comparison-overlap]


def test_a_release_whose_reply_was_lost_is_asked_again_and_is_no_loss(server: Server) -> None:
    server.idle(Line(fence, DOWN))
    server.opens = [Line([0, b""])]
    server.lock().acquire().release()


def test_a_release_that_found_many_dead_waiters_sweeps_until_none_are_left(server: Server) -> None:
    line = Line(fence, 2, 2, 2, 1)
    server.idle(line)
    server.lock().acquire().release()
    assert len(line.asked) == 5, "and three sweeps"


def test_a_release_of_what_another_has_is_not_owner(server: Server) -> None:
    server.idle(Line(fence, [0, OTHER]))
    lease = server.lock().acquire()
    with pytest.raises(NotOwner, match="another owner"):
        lease.release()


def test_try_acquire_of_a_held_lock_is_none_whatever_the_first_link_did(server: Server) -> None:
    server.idle(Line(denied))
    assert server.lock().try_acquire() is None
    server.idle(Line(DOWN))
    server.opens = [Line(denied)]
    assert server.lock().try_acquire() is None


def test_links_that_died_while_they_lay_idle_cost_one_more_try_in_all(server: Server) -> None:
    server.idle(*[Line(DOWN) for _ in range(5)])
    line = Line(fence, 1, 1)
    server.opens = [line]
    lease = server.lock().try_acquire()
    assert lease is not None
    lease.release()
    assert len(line.asked) == 3, "attempt, release, and a marker against the attempt that was lost"


def test_a_release_is_not_lost_to_idle_links_that_died_with_the_server(server: Server) -> None:
    server.idle(Line(fence))
    lease = server.lock().acquire()
    server.idle(Line(DOWN), Line(DOWN), Line(DOWN))
    server.opens = [Line(1)]
    lease.release()


def test_no_connection_at_all_is_unavailable_within_the_connect_timeout(server: Server) -> None:
    began = boottime()
    with pytest.raises(Unavailable, match="connection refused"):
        server.lock().acquire()
    assert boottime() - began < 2
    with pytest.raises(Unavailable):
        server.lock().try_acquire()


# Waiting where no bell can ring.


def test_a_link_without_an_inbox_looks_now_and_then(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(server.locks.transport, "pause", slept.append)
    with Driver(server.locks.transport, Line(inbox=b"")) as driver:  # type: ignore[arg-type]
        assert driver._park(Park(OTHER, boottime() + 60)) == Bell()
    assert len(slept) == 1
    assert 0.01 < slept[0] < 0.1


def test_a_link_without_an_inbox_does_not_ring_when_the_time_has_come(server: Server) -> None:
    with Driver(server.locks.transport, Line(inbox=b"")) as driver:  # type: ignore[arg-type]
        assert driver._park(Park(OTHER, boottime() - 1)) is None


def test_a_wait_on_a_link_without_an_inbox_ends(server: Server) -> None:
    looks = 0

    def queued() -> list[Any]:
        nonlocal looks
        looks += 1
        assert looks < 200, "it looks for ever"
        return [0, int(boottime() * 1000), OTHER, 3000, 1, 3000]

    server.idle(Line(*[queued] * 300, inbox=b""))
    with pytest.raises(LockTimeout):
        server.lock().acquire(wait=0.2)
