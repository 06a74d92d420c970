"""One round trip on a plain socket: how long it waits."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from holdtight.clock import boottime
from holdtight.plan import LinkDown
from holdtight.redis.link import Link


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    ours, theirs = socket.socketpair()
    link = Link(ours)
    yield link, theirs
    link.close()
    theirs.close()


def test_a_deadline_that_is_set_and_a_little_short_is_left_and_the_rest_is_waited_for(
    ends: tuple[Link, socket.socket],
) -> None:
    link, server = ends
    link.set_timeout(0.3)
    answer = threading.Timer(0.5, server.sendall, [b":1\r\n"])
    answer.start()
    assert link.call(b"PING", 1.0) == 1
    assert link.owed == 0
    answer.join()


@pytest.mark.parametrize("before", [0.001, 0.3, 0.6, 60.0])
def test_silence_lasts_as_long_as_was_asked_for(ends: tuple[Link, socket.socket], before: float) -> None:
    link, _ = ends
    link.set_timeout(before)
    started = time.monotonic()
    with pytest.raises(LinkDown) as down:
        link.call(b"PING", 0.6)
    assert 0.55 < time.monotonic() - started < 6
    assert down.value.silent
    assert link.owed == 1


def test_a_short_sleep_needs_no_other_deadline(ends: tuple[Link, socket.socket]) -> None:
    """What was set for the last reply will do, and then the rest is slept."""
    link, _ = ends
    link.set_timeout(0.2)
    started = time.monotonic()
    link.park(b"o" * 24, boottime() + 0.5)
    assert 0.45 < time.monotonic() - started < 5
