"""Keys of ours that another program uses: an error that says so, and no script ever overwrites anything."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk
from tests.support.raw import ServerSaid
from tests.support.servers import FLAVOURS

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
companions = pytest.mark.parametrize("which", ["queue", "waiters", "holders"])
Situation = Callable[[Desk], None]


PRECIOUS = [
    ("SET", "precious"),
    ("RPUSH", "precious"),
    ("SADD", "precious"),
    ("HSET", "precious", "1"),
    ("ZADD", "1", "precious"),
    ("XADD", "*", "precious", "1"),
]


# The main key


NOT_OURS = [b"", b"hello", b"1", b"t", b"t2-1794000000000000", b"x2-", b"s", b"s2-", b"\xff" * 50]


@pytest.mark.parametrize("verb", MAIN_VERBS)
def test_a_string_that_is_not_ours(desk: Desk, verb: str) -> None:
    for value in NOT_OURS:
        desk.wire.call("SET", desk.keys.main, value)
        before = desk.dump()
        reply = VERBS[verb](desk, ALICE)
        assert isinstance(reply, ServerSaid), value
        assert "HTFOREIGN" in str(reply), value
        assert desk.dump() == before, value


@pytest.mark.parametrize("verb", MAIN_VERBS)
def test_a_key_of_another_type(desk: Desk, verb: str) -> None:
    for command, *words in PRECIOUS[1:]:
        desk.wire.call("FLUSHALL")
        desk.wire.call(command, desk.keys.main, *words)
        before = desk.dump()
        reply = VERBS[verb](desk, ALICE)
        assert isinstance(reply, ServerSaid), command
        assert "WRONGTYPE" in str(reply), command
        assert desk.dump() == before, command


ALMOST_OURS = [
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
]


@pytest.mark.parametrize("verb", ["attempt", "ask", "read", "permit", "downgrade", "withdraw", "withdraw, marked"])
def test_a_string_that_only_begins_like_ours(desk: Desk, verb: str) -> None:
    for value in ALMOST_OURS:
        desk.wire.call("SET", desk.keys.main, value)
        before = desk.dump()
        assert isinstance(VERBS[verb](desk, BOB), ServerSaid), value
        assert desk.dump() == before, value


# The line, and the hash and the set beside it

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
    desk.attempt(ALICE, ttl=2_000)
    desk.attempt(BOB)
    desk.pass_time(2_001)


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
    desk.read(ALICE, ttl=2_000)
    desk.read(DAVE)
    desk.pass_time(2_001)


def lapsed_readers_with_a_line(desk: Desk) -> None:
    desk.read(ALICE, ttl=2_000)
    desk.attempt(BOB)
    desk.pass_time(2_001)


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


SITUATIONS = [
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
]
TELLING = [
    (held_with_a_line, BOB),
    (given, BOB),
    (readers_with_a_line, ALICE),
    (permits_with_a_line, BOB),
    (held_ahead_of_the_clock, ALICE),
]
"""In at least one of these situations, every script meets each key that it uses."""
UNUSED = {("renew", "queue"), ("adopt", "queue"), ("adopt", "holders")}


def left_alone(desk: Desk, verb: str, who: bytes, which: str, situation: Situation, foreign: tuple[str, ...]) -> bool:
    """A script that needs the key refuses, and has then done nothing at all; others leave it alone.

    The foreign key has no expiry, and must not be given one. True if the script has refused.
    """
    said = f"{verb} by {who!r} in {situation.__name__}, {which} is {foreign}"
    desk.wire.call("FLUSHALL")
    situation(desk)
    key: bytes = getattr(desk.keys, which)
    command, *words = foreign
    desk.wire.call("DEL", key)
    desk.wire.call(command, key, *words)
    before = desk.dump()
    reply = VERBS[verb](desk, who)
    after = desk.dump()
    assert after[key] == before[key], said
    if not isinstance(reply, ServerSaid):
        return False
    assert "WRONGTYPE" in str(reply) or "HTKIND" in str(reply), said
    assert after == before, said
    return True


def others_of(which: str) -> list[tuple[str, ...]]:
    return [words for words in PRECIOUS if words[0] != OURS[which]]


@verbs
@companions
@pytest.mark.parametrize("shared_server", [FLAVOURS[0]], ids=repr, indirect=True)
def test_a_companion_key_of_another_type_in_every_situation(desk: Desk, verb: str, which: str) -> None:
    """The path of a script depends on what it finds and on the caller, and not on the flavour of its server: what it
    writes on that path before it meets the foreign key shows on any. Each path meets another type of key."""
    types = itertools.cycle(others_of(which))
    for situation in SITUATIONS:
        for who in (ALICE, BOB, CAROL):  # the holder, the first in line, a stranger
            left_alone(desk, verb, who, which, situation, next(types))


@verbs
@companions
def test_a_companion_key_of_every_other_type(desk: Desk, verb: str, which: str) -> None:
    """The server decides what a command does with a key of another type: this runs on every flavour."""
    met = False
    for situation, who in TELLING:
        refused = {left_alone(desk, verb, who, which, situation, foreign) for foreign in others_of(which)}
        assert len(refused) == 1, f"{verb} in {situation.__name__}: it depends on the type"
        met = met or True in refused
    assert met == ((verb, which) not in UNUSED)
