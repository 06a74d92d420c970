"""Ten thousand dead or unreachable waiters: no script checks more than some 200, and attempts get past all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdtight.stores.memory.engine import CLAIM, FRESH, SWEEP
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, HANDED_ON, Desk, Inbox, fence_of

MANY = 10_000
LOOKS = SWEEP + 10
"""Reads of the hash; a few more for the caller's own entry, its marker, and the runner-up."""
COMMANDS = 3 * SWEEP + 60
"""One read, and two commands to remove a dead waiter."""


def counted(desk: Desk, verb: Callable[[], Any]) -> tuple[Any, int, int]:
    """Its reply, its reads of the hash, and the number of its commands."""
    desk.wire.call("CONFIG", "RESETSTAT")
    reply = verb()
    stats = desk.server.info("commandstats")
    calls = {name.partition("_")[2]: int(text.split(",")[0][6:]) for name, text in stats.items()}
    others = {"config|resetstat", "info", "eval"}
    return reply, calls.get("hget", 0), sum(calls[name] for name in calls.keys() - others)


def bounded(desk: Desk, verb: Callable[[], Any]) -> Any:
    reply, looks, commands = counted(desk, verb)
    assert looks <= LOOKS
    assert commands <= COMMANDS
    return reply


VERBS: dict[str, Callable[[Desk], Any]] = {
    "attempt": lambda desk: desk.attempt(BOB, limit=20_000),
    "attempt, full": lambda desk: desk.attempt(BOB, limit=5_000),
    "ask": lambda desk: desk.ask(BOB),
    "release": lambda desk: desk.release(ALICE),
    "withdraw": lambda desk: desk.withdraw(ALICE),
    "withdraw, marked": lambda desk: desk.withdraw(BOB, desk.now() + 2_000),
    "touch": lambda desk: desk.touch(BOB),
    "renew": lambda desk: desk.renew(ALICE),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("dead", [False, True])
def test_no_script_looks_at_more_than_some_200(desk: Desk, verb: str, free: bool, dead: bool) -> None:
    desk.attempt(ALICE, ttl=20_000)
    desk.crowd(1_000, dead=dead, inbox=b"nobody listens")
    if free:
        desk.wire.call("PEXPIRE", desk.keys.main, 9_000)
    bounded(desk, lambda: VERBS[verb](desk))


@pytest.mark.parametrize("dead", [False, True])
def test_no_touch_looks_at_more_than_some_200_before_it(desk: Desk, inbox: Inbox, dead: bool) -> None:
    desk.read(ALICE)
    desk.crowd(1_000, dead=dead, inbox=b"nobody listens")
    desk.read(BOB, limit=20_000, inbox=INBOX)
    desk.crowd(300, dead=dead, inbox=b"nobody listens")
    assert bounded(desk, lambda: desk.touch(BOB, INBOX)) == 1


def test_ten_thousand_dead_are_swept_by_and_by_and_the_living_behind_them_is_rung(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.crowd(MANY, dead=True)
    desk.attempt(BOB, limit=20_000, inbox=INBOX)
    sizes = [MANY]
    more = bounded(desk, lambda: desk.release(ALICE))
    while more == 2:
        sizes.append(desk.wire.call("ZCARD", desk.keys.queue) - 1)
        more = bounded(desk, lambda: desk.withdraw(ALICE))
    assert more == 1
    assert sizes == list(range(MANY, -1, -SWEEP))
    assert inbox.bells() == [b"g" + BOB]


def test_in_between_the_name_is_free_but_the_line_is_not_overtaken(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.crowd(SWEEP + 50, dead=True)
    desk.attempt(BOB, limit=20_000)
    assert desk.release(ALICE) == 2
    assert desk.state().owner is None
    assert desk.ask(CAROL)[:3:2] == [0, BOB], "the newcomer's attempt finds the waiter"


def test_a_waiter_behind_the_dead_is_told_to_look_again_at_once_and_gets_there(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.crowd(3 * SWEEP + 50, dead=True)
    desk.pass_time(2_001)
    looks = 0
    while isinstance(reply := bounded(desk, lambda: desk.attempt(BOB, limit=20_000)), list) and reply[0] == 0:
        assert (reply[2], reply[3], reply[5]) == (b"", 0, 0)
        looks += 1
    assert fence_of(reply)
    assert looks == 3


# Many that live, but cannot be reached: the inbox of a process with hundreds of waiters has just died


def test_the_living_behind_many_unreachable_waiters_is_served_without_delay(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.crowd(3 * SWEEP, inbox=b"nobody listens")
    desk.attempt(BOB, limit=20_000, inbox=INBOX)
    replies = [bounded(desk, lambda: desk.release(ALICE))]
    while replies[-1] == 2 and len(replies) < 10:
        replies.append(bounded(desk, lambda: desk.withdraw(ALICE)))
    assert replies == [2, 2, 2, 1]
    assert inbox.bells() == [b"g" + BOB]
    assert len(desk.state().line) == 3 * SWEEP + 1, "they all keep their places"


def test_a_waiter_behind_many_unreachable_waiters_gets_there_itself(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.crowd(2 * SWEEP, inbox=b"nobody listens")
    desk.attempt(BOB, limit=20_000)
    desk.pass_time(2_001)
    replies = [desk.attempt(BOB, limit=20_000)[0] for _ in range(3)]
    assert replies == [0, 0, 1]


def test_a_stranger_gets_a_free_lock_past_many_unreachable_waiters(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.crowd(SWEEP + 1, inbox=b"nobody listens")
    desk.pass_time(2_001)
    replies = [desk.ask(BOB)[0] for _ in range(2)]
    assert replies == [0, 1]


def test_one_of_many_passed_over_waiters_that_asks_has_its_turn_back(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    crowd = desk.crowd(SWEEP + 50, inbox=b"nobody listens")
    assert [desk.release(ALICE), desk.withdraw(ALICE)] == [2, 1]
    assert [desk.attempt(BOB, limit=20_000)[0] for _ in range(2)] == [0, 1]
    assert desk.attempt(crowd[7], limit=20_000, inbox=INBOX)[4] == 8
    assert desk.release(BOB) in HANDED_ON
    assert inbox.bells() == [b"g" + crowd[7]]


def test_a_waiter_that_joins_after_a_stop_is_found(desk: Desk, inbox: Inbox) -> None:
    """Behind the place where a sweep stopped, also when the last waiters there have left meanwhile."""
    desk.attempt(ALICE)
    crowd = desk.crowd(SWEEP, inbox=b"nobody listens")
    desk.attempt(BOB, limit=20_000)
    assert [desk.release(ALICE), desk.withdraw(ALICE)] == [2, 1]
    assert fence_of(desk.attempt(BOB))
    for who in crowd[-10:]:
        desk.withdraw(who)
    desk.attempt(CAROL, limit=20_000, inbox=INBOX)
    desk.release(BOB)
    assert inbox.bells() == [b"g" + CAROL]


def test_the_dead_do_not_fill_a_long_line_for_ever(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=600_000)
    desk.crowd(SWEEP, dead=True)
    assert bounded(desk, lambda: desk.attempt(BOB, limit=SWEEP))[0] == 0


def test_a_note_is_sent_past_a_few_waiters_that_cannot_take_it_but_not_past_many(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    desk.crowd(1_000, inbox=b"nobody listens")
    desk.pass_time(FRESH)
    assert bounded(desk, lambda: desk.release(ALICE)) == 1
    assert inbox.bells() == [b"g" + BOB]
    assert 0 < desk.time_left(desk.keys.main) - 10_000 <= CLAIM
