"""Keys of ours that are somebody else's: an error that says so, and no script ever overwrites anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk
from tests.support.raw import ServerSaid

SOON = 2_000
VERBS: dict[str, Callable[[Desk, bytes], Any]] = {
    "attempt": lambda desk, who: desk.attempt(who),
    "ask": lambda desk, who: desk.ask(who),
    "release": lambda desk, who: desk.release(who),
    "renew": lambda desk, who: desk.renew(who),
    "touch": lambda desk, who: desk.touch(who),
    "withdraw": lambda desk, who: desk.withdraw(who),
    "withdraw, marked": lambda desk, who: desk.withdraw(who, desk.now() + SOON),
    "adopt": lambda desk, who: desk.adopt(who, DAVE),
    "inspect": lambda desk, who: desk.inspect(),
}
verbs = pytest.mark.parametrize("verb", VERBS)
MAIN_VERBS = [verb for verb in VERBS if verb != "touch"]
owners = pytest.mark.parametrize("who", [ALICE, BOB, CAROL], ids=["holder", "in line", "stranger"])


# The main key


@pytest.mark.parametrize("verb", MAIN_VERBS)
@pytest.mark.parametrize("value", [b"", b"hello", b"1", b"t", b"t2-1794000000000000", b"x2-", b"\xff" * 50])
def test_a_string_that_is_not_ours(desk: Desk, verb: str, value: bytes) -> None:
    desk.wire.call("SET", desk.keys.main, value)
    before = desk.dump()
    reply = VERBS[verb](desk, ALICE)
    assert isinstance(reply, ServerSaid)
    assert "HTFOREIGN" in str(reply)
    assert desk.dump() == before


@pytest.mark.parametrize("verb", MAIN_VERBS)
@pytest.mark.parametrize("command", ["RPUSH", "SADD", "HSET", "XADD"])
def test_a_key_of_another_type(desk: Desk, verb: str, command: str) -> None:
    words = {"HSET": ["field", "value"], "XADD": ["*", "field", "value"]}.get(command, ["value"])
    desk.wire.call(command, desk.keys.main, *words)
    before = desk.dump()
    reply = VERBS[verb](desk, ALICE)
    assert isinstance(reply, ServerSaid)
    assert "WRONGTYPE" in str(reply)
    assert desk.dump() == before


@pytest.mark.parametrize("verb", ["attempt", "ask", "withdraw", "withdraw, marked"])
@pytest.mark.parametrize(
    "value",
    [
        b"t1",
        b"t1234",
        b"t1-",
        b"t1-17",
        b"t1-1794000000000000 and more",
        b"t1-hello",
        b"x1",
        b"x1-" + ALICE,
        b"x1-" + ALICE + b"17",
        b"x1-" + ALICE + b"hello, dear world",
    ],
)
def test_a_string_that_only_begins_like_ours(desk: Desk, verb: str, value: bytes) -> None:
    desk.wire.call("SET", desk.keys.main, value)
    before = desk.dump()
    assert isinstance(VERBS[verb](desk, BOB), ServerSaid)
    assert desk.dump() == before


# The line and the hash beside it


def nothing_there(desk: Desk) -> None:
    pass


def held(desk: Desk) -> None:
    desk.attempt(ALICE)


def held_with_a_line(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)


def given(desk: Desk) -> None:
    held_with_a_line(desk)
    desk.release(ALICE)


def passed_over(desk: Desk) -> None:
    held_with_a_line(desk)
    desk.attempt(BOB, inbox=b"nobody listens")
    desk.release(ALICE)


def lapsed(desk: Desk) -> None:
    held(desk)
    desk.pass_time(30_001)


def lapsed_with_a_line(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=100)
    desk.attempt(BOB)
    desk.pass_time(101)


def tombstone(desk: Desk) -> None:
    held(desk)
    desk.release(ALICE)


def tombstone_ahead_of_the_clock(desk: Desk) -> None:
    desk.put_tombstone(desk.now_us() + 3_600_000_000)


def held_ahead_of_the_clock(desk: Desk) -> None:
    desk.put_held(ALICE, desk.now_us() + 3_600_000_000)


@verbs
@owners
@pytest.mark.parametrize("which", ["queue", "waiters"])
@pytest.mark.parametrize(
    "situation",
    [
        nothing_there,
        held,
        held_with_a_line,
        given,
        passed_over,
        lapsed,
        lapsed_with_a_line,
        tombstone,
        tombstone_ahead_of_the_clock,
        held_ahead_of_the_clock,
    ],
    ids=lambda function: function.__name__,
)
def test_a_companion_key_of_another_type(
    desk: Desk, verb: str, who: bytes, which: str, situation: Callable[[Desk], None]
) -> None:
    """A script that needs the key refuses, and has then done nothing at all; others leave it alone.

    The foreign key has no expiry, and must not be given one.
    """
    situation(desk)
    key: bytes = getattr(desk.keys, which)
    desk.wire.call("SET", key, "precious")
    before = desk.dump()
    reply = VERBS[verb](desk, who)
    after = desk.dump()
    assert after[key] == before[key]
    if isinstance(reply, ServerSaid):
        assert "WRONGTYPE" in str(reply)
        assert after == before
