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
    "read": lambda desk, who: desk.read(who),
    "permit": lambda desk, who: desk.permit(who),
    "permits": lambda desk, who: desk.permit(who, 2, of=3),
    "downgrade": lambda desk, who: desk.downgrade(who),
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
@pytest.mark.parametrize(
    "value", [b"", b"hello", b"1", b"t", b"t2-1794000000000000", b"x2-", b"s", b"s2-", b"\xff" * 50]
)
def test_a_string_that_is_not_ours(desk: Desk, verb: str, value: bytes) -> None:
    desk.wire.call("SET", desk.keys.main, value)
    before = desk.dump()
    reply = VERBS[verb](desk, ALICE)
    assert isinstance(reply, ServerSaid)
    assert "HTFOREIGN" in str(reply)
    assert desk.dump() == before


@pytest.mark.parametrize("verb", MAIN_VERBS)
@pytest.mark.parametrize("command", ["RPUSH", "SADD", "HSET", "XADD", "ZADD"])
def test_a_key_of_another_type(desk: Desk, verb: str, command: str) -> None:
    words = {"HSET": ["field", "value"], "XADD": ["*", "field", "value"], "ZADD": ["1", "m"]}.get(command, ["value"])
    desk.wire.call(command, desk.keys.main, *words)
    before = desk.dump()
    reply = VERBS[verb](desk, ALICE)
    assert isinstance(reply, ServerSaid)
    assert "WRONGTYPE" in str(reply)
    assert desk.dump() == before


@pytest.mark.parametrize("verb", ["attempt", "ask", "read", "permit", "downgrade", "withdraw", "withdraw, marked"])
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
        b"s1",
        b"s1-",
        b"s1-hello, dear world",
        b"s1-1794000000000000 and more",
        b"p1-hello",
        b"p1-1794000000000000++",
    ],
)
def test_a_string_that_only_begins_like_ours(desk: Desk, verb: str, value: bytes) -> None:
    desk.wire.call("SET", desk.keys.main, value)
    before = desk.dump()
    assert isinstance(VERBS[verb](desk, BOB), ServerSaid)
    assert desk.dump() == before


# The line, and the hash and the set beside it

PRECIOUS = [
    ("SET", "precious"),
    ("RPUSH", "precious"),
    ("SADD", "precious"),
    ("HSET", "precious", "1"),
    ("ZADD", "1", "precious"),
    ("XADD", "*", "precious", "1"),
]
OURS = {"queue": "ZADD", "waiters": "HSET", "holders": "ZADD"}


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


def readers(desk: Desk) -> None:
    desk.read(ALICE)
    desk.read(CAROL)


def one_reader(desk: Desk) -> None:
    desk.read(ALICE)


def readers_with_a_line(desk: Desk) -> None:
    desk.read(ALICE)
    desk.attempt(BOB)


def a_lapsed_reader(desk: Desk) -> None:
    desk.read(ALICE, ttl=100)
    desk.read(DAVE)
    desk.pass_time(101)


def lapsed_readers_with_a_line(desk: Desk) -> None:
    desk.read(ALICE, ttl=100)
    desk.attempt(BOB)
    desk.pass_time(101)


def readers_wait(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.read(BOB)
    desk.read(CAROL)


def readers_were_let_in(desk: Desk) -> None:
    readers_wait(desk)
    desk.release(ALICE)


def a_permit(desk: Desk) -> None:
    desk.permit(ALICE)


def permits_with_a_line(desk: Desk) -> None:
    desk.permit(ALICE, 2, of=2)
    desk.permit(BOB)
    desk.permit(CAROL)


def readers_ahead_of_the_clock(desk: Desk) -> None:
    desk.put_tombstone(desk.now_us() + 3_600_000_000)
    desk.read(ALICE)


def tombstone_ahead_of_the_clock(desk: Desk) -> None:
    desk.put_tombstone(desk.now_us() + 3_600_000_000)


def held_ahead_of_the_clock(desk: Desk) -> None:
    desk.put_held(ALICE, desk.now_us() + 3_600_000_000)


@verbs
@owners
@pytest.mark.parametrize("which", ["queue", "waiters", "holders"])
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
        readers,
        one_reader,
        readers_with_a_line,
        a_lapsed_reader,
        lapsed_readers_with_a_line,
        readers_wait,
        readers_were_let_in,
        a_permit,
        permits_with_a_line,
        readers_ahead_of_the_clock,
    ],
    ids=lambda function: function.__name__,
)
def test_a_companion_key_of_another_type(
    desk: Desk, verb: str, who: bytes, which: str, situation: Callable[[Desk], None]
) -> None:
    """A script that needs the key refuses, and has then done nothing at all; others leave it alone.

    The foreign key has no expiry, and must not be given one. Each combination meets another type of key.
    """
    situation(desk)
    key: bytes = getattr(desk.keys, which)
    types = [words for words in PRECIOUS if words[0] != OURS[which]]
    command, *words = types[(len(verb) + len(situation.__name__) + len(who.strip(b"\0"))) % len(types)]
    desk.wire.call("DEL", key)
    desk.wire.call(command, key, *words)
    before = desk.dump()
    reply = VERBS[verb](desk, who)
    after = desk.dump()
    assert after[key] == before[key]
    if isinstance(reply, ServerSaid):
        assert "WRONGTYPE" in str(reply) or "HTKIND" in str(reply)
        assert after == before
