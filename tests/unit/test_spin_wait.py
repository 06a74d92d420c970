"""Spinning for a reply before sleeping: only where it pays."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdtight import Locks
from holdtight.stores.redis import spin
from holdtight.stores.redis.spin import CHECK_EVERY, DEBIT, MOST_LOOKS, LinkSpinWait, SpinWait
from tests.support.servers import RunningServer

RESTS = 2, 8


class Usage:
    """The system's counters of this thread."""

    ru_nivcsw = 1000


@pytest.fixture(autouse=True)
def usage(monkeypatch: pytest.MonkeyPatch) -> Usage:
    """No thread has used a spin wait yet, and the counters show no preemption, however busy the machine is."""
    monkeypatch.setattr(spin, "_latest", [0])
    found = Usage()
    monkeypatch.setattr("resource.getrusage", lambda who: found)
    return found


class NodeConnection:
    """A `recv`, and a poll object, that have the answer after a given number of polls."""

    def __init__(self) -> None:
        self.after = 0
        self.looks = self.sleeps = 0
        self._left = 0

    def ask(self, after: int) -> NodeConnection:
        self._left = after
        self.looks = self.sleeps = 0
        return self

    def recv(self, size: int, flags: int = 0) -> bytes:
        if flags != socket.MSG_DONTWAIT:
            self.sleeps += 1
        elif self._left:
            self._left -= 1
            self.looks += 1
            raise BlockingIOError
        return b"answer"

    def poll(self, ms: float) -> list[Any]:
        if ms:
            self.sleeps += 1
        elif self._left:
            self._left -= 1
            self.looks += 1
            return []
        return [(7, 1)]


@pytest.fixture(params=["read", "poll"])
def ask(request: pytest.FixtureRequest) -> Any:
    """Asks through a spin wait whose answer comes after that many polls: returns the polls and the sleeps."""
    connection = NodeConnection()

    def by_read(out: SpinWait, after: int) -> tuple[int, int]:
        assert out.read(connection.ask(after).recv, 448) == b"answer"
        return connection.looks, connection.sleeps

    def by_poll(out: SpinWait, after: int) -> tuple[int, int]:
        assert out.poll(connection.ask(after).poll, 5.0) == [(7, 1)]
        return connection.looks, connection.sleeps

    return by_read if request.param == "read" else by_poll


def rest_of(out: SpinWait) -> int:
    """The number of acquisitions until it spins again."""
    times = 0
    while not out.looking:
        out.again()
        times += 1
    return times


def miss(out: SpinWait, ask: Any) -> None:
    while out.looking:
        ask(out, 10_000)


def test_an_answer_that_comes_soon_is_seen_without_sleep(ask: Any) -> None:
    out = SpinWait(RESTS)
    for _ in range(1000):
        assert ask(out, 20) == (20, 0)
    assert out.looking


def test_one_does_not_look_for_much_longer_than_usual(ask: Any) -> None:
    out = SpinWait(RESTS)
    looks, sleeps = ask(out, 10_000)
    assert (looks, sleeps) == (MOST_LOOKS, 1)
    for _ in range(200):
        ask(out, 5)
    looks, sleeps = ask(out, 10_000)
    assert sleeps == 1
    assert 5 < looks < 20


def test_an_answer_that_takes_long_now_and_then_does_not_end_it(ask: Any) -> None:
    out = SpinWait(RESTS)
    for number in range(500):
        ask(out, 10_000 if number % 5 == 4 else 20)
    assert out.looking


def test_of_a_server_that_is_far_one_soon_sleeps_at_once_and_looks_ever_more_seldom(ask: Any) -> None:
    out = SpinWait(RESTS)
    rests = []
    for _ in range(5):
        missed = 0
        while out.looking:
            ask(out, 10_000)
            missed += 1
        assert missed <= DEBIT + 2
        rests.append(rest_of(out))
    assert rests == [2, 4, 8, 8, 8]


def test_it_is_begun_anew_when_it_pays_again(ask: Any) -> None:
    out = SpinWait(RESTS)
    for _ in range(3):
        miss(out, ask)
        rest_of(out)
    for _ in range(2 * CHECK_EVERY):
        assert ask(out, 20) == (20, 0)
    miss(out, ask)
    assert rest_of(out) == RESTS[0]


def test_where_the_answer_is_there_at_once_nobody_would_have_slept(ask: Any) -> None:
    out = SpinWait(RESTS)
    for _ in range(200):
        if out.looking:
            assert ask(out, 0) == (0, 0)
    assert not out.looking
    assert rest_of(out) == RESTS[1]


def test_among_threads_that_take_turns_nobody_looks(ask: Any) -> None:
    mine, others = SpinWait((1, 1)), SpinWait((1, 1))
    seen: list[tuple[int, int]] = []
    ask(mine, 20)
    for _ in range(10):
        thread = threading.Thread(target=lambda: seen.append(ask(others, 20)))
        thread.start()
        thread.join()
        seen.append(ask(mine, 20))
        mine.again()
        others.again()
    assert set(seen) == {(0, 1)}
    assert ask(mine, 20) == (20, 0), "nobody else has asked since"


@pytest.mark.parametrize(("taken_away", "looks_on"), [(0, True), (1, True), (2, False), (50, False)])
def test_a_thread_that_does_not_keep_the_processor_does_not_spin(
    ask: Any, usage: Usage, taken_away: int, looks_on: bool
) -> None:
    out = SpinWait(RESTS)
    for _ in range(CHECK_EVERY // 2):
        assert ask(out, 20) == (20, 0)
    usage.ru_nivcsw += taken_away
    for _ in range(CHECK_EVERY):
        if out.looking:
            ask(out, 20)
    assert out.looking is looks_on


def test_a_link_reads_plainly_whenever_it_does_not_look() -> None:
    connection = NodeConnection()
    bare: list[Any] = ["write", "read"]
    out = LinkSpinWait(bare, connection.recv)
    for _ in range(3):
        while out.looking:
            assert bare[1] != "read"
            connection.ask(10_000)
            assert bare[1](7, 448) == b"answer"
            assert (connection.looks > 0, connection.sleeps) == (True, 1)
        assert bare[1] == "read"
        rest_of(out)
    assert bare[0] == "write"


@pytest.fixture
def links(server: RunningServer) -> Iterator[Any]:
    """The spin waits of a client's links, after an acquisition."""
    opened: list[Locks] = []

    def open_locks(**options: Any) -> list[Any]:
        locks = Locks(server.url, **options)
        opened.append(locks)
        with locks.lock("a"):
            pass
        idle: list[Any] = list(locks.transport.idle)
        return [link.spin_wait for link in idle]

    yield open_locks
    for locks in opened:
        locks.close()


def test_a_client_looks_unless_it_is_told_not_to(links: Any) -> None:
    assert [type(each) for each in links()] == [LinkSpinWait]
    assert links(spin=False) == [None]


def test_after_a_time_of_rest_a_client_finds_out_anew(server: RunningServer) -> None:
    with Locks(server.url) as locks:
        with locks.lock("a"):
            pass
        link: Any = locks.transport.idle[0]
        out: SpinWait = link.spin_wait
        out._sleep(1)
        for _ in range(300):
            with locks.lock("a"):
                pass
            if out.looking:
                break
        assert out.looking


def test_spin_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="spin must be True or False, not 'yes'"):
        Locks("memory://", spin="yes")  # type: ignore[arg-type]
