"""One round trip on a plain socket: how long it waits, and what it reads."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdtight.base.clock import boottime
from holdtight.base.plan import LinkDown
from holdtight.stores.redis.link import SocketLink


@pytest.fixture
def ends() -> Iterator[tuple[SocketLink, socket.socket]]:
    ours, theirs = socket.socketpair()
    link = SocketLink(ours)
    yield link, theirs
    link.close()
    theirs.close()


def test_a_deadline_that_is_set_and_a_little_short_is_left_and_the_rest_is_waited_for(
    ends: tuple[SocketLink, socket.socket],
) -> None:
    link, server = ends
    link.set_timeout(0.3)
    answer = threading.Timer(0.5, server.sendall, [b":1\r\n"])
    answer.start()
    assert link.call(b"PING", 1.0) == 1
    assert link.owed == 0
    answer.join()


@pytest.mark.parametrize("before", [0.001, 0.3, 0.6, 60.0])
def test_silence_lasts_as_long_as_was_asked_for(ends: tuple[SocketLink, socket.socket], before: float) -> None:
    link, _ = ends
    link.set_timeout(before)
    started = time.monotonic()
    with pytest.raises(LinkDown) as down:
        link.call(b"PING", 0.6)
    assert 0.55 < time.monotonic() - started < 6
    assert down.value.silent
    assert link.owed == 1


BELL = b">3\r\n$7\r\nmessage\r\n$5\r\ninbox\r\n$1\r\nr\r\n"
REPLIES: list[tuple[bytes, Any]] = [
    (b":1\r\n", 1),
    (b":3\r\n", 3),
    (b":10\r\n", 10),
    (b"$16\r\n1794830846999872\r\n", b"1794830846999872"),
    (b"$4\r\n:1\r\n\r\n", b":1\r\n"),
    (b"$17\r\n1794830846999872x\r\n", b"1794830846999872x"),
    (b"*2\r\n:0\r\n:1\r\n", [0, 1]),
    (b"*1\r\n$16\r\n1794830846999872\r\n", [b"1794830846999872"]),
    (b"$-1\r\n", None),
]


@pytest.mark.parametrize(("first", "a"), REPLIES)
@pytest.mark.parametrize(("then", "b"), REPLIES)
@pytest.mark.parametrize("bells", [("", ""), ("before", ""), ("after", ""), ("", "before"), ("after", "before")])
def test_a_reply_is_the_same_whatever_came_before_it(
    ends: tuple[SocketLink, socket.socket], first: bytes, a: Any, then: bytes, b: Any, bells: tuple[str, str]
) -> None:
    """The two usual replies are read without the parser, if it has no data left."""
    link, server = ends
    for reply, meant, bell in ((b":1\r\n", 1, ""), (first, a, bells[0]), (then, b, bells[1]), (b":1\r\n", 1, "")):
        server.sendall((BELL if bell == "before" else b"") + reply + (BELL if bell == "after" else b""))
        assert link.call(b"PING", 5.0) == meant
        assert link.owed == 0


def test_what_looks_like_a_reply_may_be_the_rest_of_a_bell(ends: tuple[SocketLink, socket.socket]) -> None:
    link, server = ends
    server.sendall(b":3\r\n>3\r\n$7\r\nmessage\r\n$5\r\ninbox\r\n")
    assert link.call(b"PING", 5.0) == 3
    server.sendall(b"$16\r\n1794830846999872\r\n")
    answer = threading.Timer(0.02, server.sendall, [b":1\r\n"])
    answer.start()
    assert link.call(b"PING", 5.0) == 1
    answer.join()


@pytest.mark.parametrize("cut", range(1, 23))
def test_a_fence_that_comes_in_two_pieces_is_read_whole(ends: tuple[SocketLink, socket.socket], cut: int) -> None:
    link, server = ends
    whole = b"$16\r\n1794830846999872\r\n"
    for _ in range(2):
        server.sendall(b":1\r\n")
        assert link.call(b"PING", 5.0) == 1  # the parser is known to be empty
        server.sendall(whole[:cut])
        rest = threading.Timer(0.002, server.sendall, [whole[cut:]])
        rest.start()
        assert link.call(b"PING", 5.0) == whole[5:21]
        rest.join()


def test_a_request_that_does_not_go_in_one_piece_goes_whole(ends: tuple[SocketLink, socket.socket]) -> None:
    """A system call that waits for room may send a part only, if a signal comes."""
    link, server = ends
    request = b"x" * 4_000_000
    seen: list[bytes] = []
    was = signal.signal(signal.SIGUSR1, lambda *_: None)

    def read_all() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        while sum(map(len, seen)) < len(request):
            seen.append(server.recv(65536))
        server.sendall(b":1\r\n")

    reader = threading.Timer(0.1, read_all)
    reader.start()
    try:
        assert link.call(request, 20.0) == 1
    finally:
        reader.join()
        signal.signal(signal.SIGUSR1, was)
    assert b"".join(seen) == request


def test_a_link_that_was_closed_does_not_touch_the_new_user_of_its_descriptor(
    ends: tuple[SocketLink, socket.socket],
) -> None:
    link, _ = ends
    number = link.fileno()
    link.set_timeout(1.0)
    link.close()
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    try:
        assert number in (read_end, write_end), "the system gives the lowest number that is free"
        for use in (lambda: link.call(b"PING", 1.0), lambda: link.push_out(b"PING"), link.pump):
            with pytest.raises(LinkDown):
                use()
        with pytest.raises(BlockingIOError):
            os.read(read_end, 10)
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_short_sleep_needs_no_other_deadline(ends: tuple[SocketLink, socket.socket]) -> None:
    """The timeout of the last reply is kept, and the link sleeps for the rest."""
    link, _ = ends
    link.set_timeout(0.2)
    started = time.monotonic()
    link.park(b"o" * 24, boottime() + 0.5)
    assert 0.45 < time.monotonic() - started < 5


@pytest.mark.parametrize("spins", [False, True])
@pytest.mark.parametrize(
    "pieces",
    [
        [b"$16\r\n1794830846999872\r\n", b":2\r\n"],
        [b"$16\r\n1794830846999872\r\n:2\r\n"],
        [b"$16\r\n1794830846999872\r\n:", b"2\r\n"],
        [b"$16\r\n17948308469", b"99872\r\n", b":2\r\n"],
        [b"$16\r\n1794830846999872\r\n", BELL, b":2\r\n"],
        [b"$16\r\n1794830846999872\r\n" + BELL, b":2\r\n"],
        [b"$16\r\n1794830846999872\r\n" + BELL + b":2\r\n"],
    ],
)
def test_the_replies_to_two_requests_are_read_however_they_come(
    ends: tuple[SocketLink, socket.socket], pieces: list[bytes], spins: bool
) -> None:
    link, server = ends
    if spins:
        link.look_out()
    for _ in range(2):

        def answer() -> None:
            server.recv(100)
            for piece in pieces:
                server.sendall(piece)
                time.sleep(0.005)  # the next one comes in a read of its own

        answering = threading.Thread(target=answer)
        answering.start()
        assert link.call_twice(b"BOTH", 5.0) == (b"1794830846999872", 2)
        assert link.owed == 0
        answering.join()
    if any(BELL in piece for piece in pieces):
        assert link.park(b"o" * 24, boottime() + 0.01) is None, "the bell was for another owner"
    server.sendall(b":1\r\n")
    assert link.call(b"PING", 1.0) == 1


def test_a_second_reply_that_does_not_come_ends_the_link_in_time(ends: tuple[SocketLink, socket.socket]) -> None:
    link, server = ends
    link.set_timeout(0.2)  # somewhat shorter: it stays, and the rest is waited for
    server.sendall(b":1\r\n")
    started = time.monotonic()
    with pytest.raises(LinkDown) as down:
        link.call_twice(b"BOTH", 0.5)
    assert 0.45 < time.monotonic() - started < 5
    assert down.value.silent
    assert link.owed == 1


def test_two_requests_need_no_other_deadline_than_those_before(
    ends: tuple[SocketLink, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    link, server = ends
    link.set_timeout(1.0)
    asked: list[float] = []
    monkeypatch.setattr(SocketLink, "set_timeout", lambda self, timeout: asked.append(timeout))
    for _ in range(2):
        server.sendall(b"$16\r\n1794830846999872\r\n:2\r\n")
        link.call_twice(b"BOTH", 1.2)
    assert asked == []


@pytest.mark.parametrize("twice", [False, True])
def test_a_bell_before_the_reply_does_not_shorten_the_wait_for_it(
    ends: tuple[SocketLink, socket.socket], twice: bool
) -> None:
    """The kernel's deadline is shorter than what was asked for, and stays as it is until it has passed."""
    link, server = ends
    link.set_timeout(0.3)
    server.sendall((b":1\r\n" if twice else b"") + BELL)
    answer = threading.Timer(0.5, server.sendall, [b":7\r\n"])
    answer.start()
    assert (link.call_twice(b"BOTH", 1.2) if twice else link.call(b"PING", 1.2)) == ((1, 7) if twice else 7)
    answer.join()
