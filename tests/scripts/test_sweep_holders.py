"""Ten thousand dead sharers of a name, or a run of a thousand readers: no script does more than some 200 at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdtight.stores.memory.engine import SWEEP
from tests.scripts.conftest import INBOX
from tests.scripts.test_sweep import counted
from tests.scripts.workbench import ALICE, BOB, CAROL, Desk, Inbox, fence_of, sharing

MANY = 10_000
COMMANDS = 5 * SWEEP + 60
"""For each of a run: a look, a bell, and three writes."""


def stored(desk: Desk) -> int:
    return int(desk.wire.call("ZCARD", desk.keys.holders))


def bounded(desk: Desk, verb: Callable[[], Any]) -> Any:
    before = stored(desk)
    reply, looks, commands = counted(desk, verb)
    assert looks <= SWEEP + 10
    assert commands <= COMMANDS
    assert before - stored(desk) <= SWEEP + 1
    return reply


def dead_readers(desk: Desk, number: int = MANY) -> None:
    """All of them, and ALICE, whose time is up too."""
    desk.read(ALICE, ttl=1_000)
    desk.crowd_in(number - 1, mode="r", dead=True)
    desk.pass_time(1_001)


VERBS: dict[str, Callable[[Desk], Any]] = {
    "attempt": lambda desk: desk.attempt(BOB, limit=20_000),
    "ask": lambda desk: desk.ask(BOB),
    "read": lambda desk: desk.read(BOB, limit=20_000),
    "permit": lambda desk: desk.permit(BOB, limit=20_000),
    "release": lambda desk: desk.release(ALICE),
    "withdraw": lambda desk: desk.withdraw(ALICE),
    "withdraw, marked": lambda desk: desk.withdraw(BOB, desk.now() + 2_000),
    "renew": lambda desk: desk.renew(ALICE),
    "downgrade": lambda desk: desk.downgrade(ALICE),
    "inspect": lambda desk: desk.inspect(most=100),
}


@pytest.mark.one_flavour
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("living", [False, True])
@pytest.mark.parametrize("line", ["", "x", "r", "dead"])
def test_no_script_clears_more_than_some_200(desk: Desk, verb: str, living: bool, line: str) -> None:
    desk.read(ALICE, ttl=20_000)
    desk.crowd_in(1_000, mode="r", dead=True)
    if line:
        desk.crowd(600, mode=line if line != "dead" else "x", dead=line == "dead")
    if not living:
        desk.pass_time(20_001)
    bounded(desk, lambda: VERBS[verb](desk))


def test_a_writer_gets_past_ten_thousand_dead_readers_by_and_by(desk: Desk) -> None:
    dead_readers(desk)
    looks = 0
    while (reply := bounded(desk, lambda: desk.attempt(BOB, limit=20_000)))[0] == 0:
        assert reply[2:] == [b"", 0, 1, 0], "look again at once"
        looks += 1
    assert looks == MANY // SWEEP - 1
    assert fence_of(reply)
    assert set(desk.dump()) == {desk.keys.main}, "nothing is left of them"


def test_a_waiter_further_back_asks_again_at_once_too(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(CAROL, inbox=b"nobody listens")
    desk.release(ALICE)
    desk.read(ALICE, ttl=1_000)
    desk.crowd_in(2 * SWEEP, mode="r", dead=True)
    desk.pass_time(1_001)
    assert desk.attempt(BOB)[2:] == [b"", 0, 2, 0]


def test_a_reader_comes_in_at_once(desk: Desk) -> None:
    dead_readers(desk, 1_000)
    assert bounded(desk, lambda: fence_of(desk.read(BOB)))
    assert sharing(desk) == [BOB]


def test_a_permit_is_had_at_once(desk: Desk) -> None:
    desk.permit(ALICE, ttl=1_000)
    desk.crowd_in(1_000, mode="p", dead=True)
    desk.pass_time(1_001)
    assert bounded(desk, lambda: fence_of(desk.permit(BOB, of=1)))
    assert bounded(desk, lambda: desk.permit(CAROL, of=1))[0] == 0


def test_readers_in_constant_use_clear_away_their_dead(desk: Desk) -> None:
    desk.read(ALICE, ttl=600_000)
    desk.crowd_in(1_000, mode="r", dead=True)
    for _ in range(6):
        bounded(desk, lambda: desk.read(BOB))
        bounded(desk, lambda: desk.release(BOB))
    assert [holder.owner for holder in desk.state().holders] == [ALICE]
    assert desk.wire.call("HLEN", desk.keys.waiters) == 1


def test_a_release_says_that_there_is_more_until_the_writer_behind_the_dead_is_rung(desk: Desk, inbox: Inbox) -> None:
    desk.read(ALICE)
    desk.attempt(BOB, limit=20_000, inbox=INBOX)
    desk.crowd_in(3 * SWEEP + 1, mode="r", dead=True)
    replies = [bounded(desk, lambda: desk.release(ALICE))]
    while replies[-1] == 2 and len(replies) < 10:
        replies.append(bounded(desk, lambda: desk.withdraw(ALICE)))
    assert replies == [2, 2, 2, 1]
    assert inbox.bells() == [b"g" + BOB]
    assert desk.state().owner == BOB


@pytest.mark.parametrize("mode", ["r", "p"])
def test_a_run_of_a_thousand_comes_in_by_and_by(desk: Desk, mode: str) -> None:
    desk.attempt(ALICE)
    crowd = desk.crowd(5 * SWEEP, mode=mode, ttl=60_000)
    if mode == "p":
        text: bytes = desk.wire.call("HGET", desk.keys.waiters, crowd[0])
        for who in crowd:
            desk.wire.call("HSET", desk.keys.waiters, who, text[:-9] + b"%09d" % (10 * SWEEP))
    fences: dict[bytes, int] = {}

    def let_in(verb: Callable[[], Any]) -> Any:
        reply = bounded(desk, verb)
        fences.update((holder.owner, holder.fence) for holder in desk.state().holders)  # before their claim is over
        return reply

    replies = [let_in(lambda: desk.release(ALICE))]
    while replies[-1] == 2 and len(replies) < 10:
        replies.append(let_in(lambda: desk.withdraw(ALICE)))
    assert replies == [2, 2, 2, 2, 2, 1]
    assert sorted(fences, key=lambda owner: fences[owner]) == crowd


def test_thousands_of_dead_waiters_before_a_reader_are_got_past(desk: Desk, inbox: Inbox) -> None:
    desk.read(ALICE)
    desk.crowd(3 * SWEEP, dead=True)
    desk.read(BOB, limit=20_000, inbox=INBOX)
    replies = [desk.read(CAROL, limit=20_000)[0] for _ in range(3)]
    assert replies == [0, 0, 1]
    assert inbox.bells() == [b"g" + BOB]


def test_what_is_left_of_holders_whose_set_is_gone_does_not_pile_up(desk: Desk) -> None:
    """Their set can expire before the hash, which a line keeps alive."""
    desk.read(ALICE, ttl=600_000)
    desk.crowd_in(400, mode="r", dead=True)
    desk.wire.call("ZREMRANGEBYSCORE", desk.keys.holders, "-inf", desk.now())
    for n in range(600):
        desk.withdraw(b"%024d" % n, desk.now() + 1)
    left = [field for field in desk.wire.call("HKEYS", desk.keys.waiters) if field.startswith(b"h")]
    assert len(left) < 100
    assert sharing(desk) == [ALICE]
