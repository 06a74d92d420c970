"""withdraw.lua: undoes an attempt, also one that has not arrived yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdtight.stores.memory.engine import TAIL
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, Inbox, fence_of, owner

WHILE = 2_000
"""How long a marker counts, in ms."""


def nothing_there(desk: Desk) -> None:
    pass


def tombstone(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.release(ALICE)


def held(desk: Desk) -> None:
    desk.attempt(ALICE)


def held_with_a_line(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(CAROL)


def lapsed(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=1_000)
    desk.pass_time(1_001)


def lapsed_with_a_line(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=1_000)
    desk.attempt(CAROL)
    desk.pass_time(1_001)


def its_own(desk: Desk) -> None:
    desk.attempt(BOB)


def its_own_with_a_line(desk: Desk) -> None:
    desk.attempt(BOB)
    desk.attempt(CAROL)


def in_line(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)


situations = pytest.mark.parametrize(
    "situation",
    [
        nothing_there,
        tombstone,
        held,
        held_with_a_line,
        lapsed,
        lapsed_with_a_line,
        its_own,
        its_own_with_a_line,
        in_line,
    ],
    ids=lambda function: function.__name__,
)
Situation = Callable[[Desk], None]


@situations
def test_nothing_of_the_owner_is_left(desk: Desk, situation: Situation) -> None:
    situation(desk)
    assert desk.withdraw(BOB) == 1
    state = desk.state()
    assert state.owner != BOB
    assert BOB not in [entry.owner for entry in state.line]
    assert not state.markers


@situations
def test_a_marker_refuses_the_attempt_that_was_still_on_its_way(desk: Desk, situation: Situation) -> None:
    situation(desk)
    assert desk.withdraw(BOB, desk.now() + WHILE) == 1
    before = desk.dump()
    refused, _ = desk.attempt(BOB)
    assert refused == -3
    assert desk.ask(BOB)[0] == -3
    assert desk.dump() == before


@situations
def test_a_marker_refuses_nobody_else(desk: Desk, situation: Situation) -> None:
    situation(desk)
    desk.withdraw(BOB, desk.now() + WHILE)
    assert desk.attempt(DAVE)[0] != -3
    for who in (ALICE, CAROL):
        desk.release(who)
    assert fence_of(desk.ask(DAVE))
    assert desk.attempt(BOB)[0] == -3, "also after the name changed hands"
    desk.release(DAVE)
    assert desk.attempt(BOB)[0] == -3, "and after it came free"


@situations
def test_a_marker_counts_no_longer_than_it_says(desk: Desk, situation: Situation) -> None:
    situation(desk)
    desk.withdraw(BOB, desk.now() + WHILE)
    desk.pass_time(WHILE + 1)
    reply = desk.attempt(BOB)
    assert isinstance(reply, bytes) or reply[0] in (0, 1)


def test_a_marker_of_the_past_is_none(desk: Desk) -> None:
    desk.withdraw(BOB, desk.now() - 1)
    assert desk.dump() == {}


def test_the_server_forgets_a_marker_by_itself(desk: Desk) -> None:
    desk.withdraw(BOB, desk.now() + WHILE)
    assert list(desk.dump()) == [desk.keys.waiters]
    assert 0 < desk.time_left(desk.keys.waiters) <= WHILE


@pytest.mark.parametrize("marked", [False, True])
def test_a_grant_that_just_came_is_passed_on(desk: Desk, inbox: Inbox, marked: bool) -> None:
    fence = fence_of(desk.attempt(BOB))
    desk.attempt(CAROL, inbox=INBOX)
    assert desk.withdraw(BOB, desk.now() + WHILE if marked else 0) == 1
    assert inbox.bells() == [b"g" + CAROL]
    assert desk.state().owner == CAROL
    assert desk.state().fence > fence


@pytest.mark.parametrize("marked", [False, True])
def test_a_grant_that_nobody_waits_for_becomes_a_tombstone(desk: Desk, marked: bool) -> None:
    fence = fence_of(desk.attempt(BOB))
    desk.withdraw(BOB, desk.now() + WHILE if marked else 0)
    assert desk.state().value == (b"t1q" if marked else b"t1-") + b"%d" % fence


def test_a_waiter_that_leaves_the_line_of_a_held_lock_disturbs_no_other(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    desk.attempt(CAROL, inbox=INBOX)
    desk.withdraw(BOB)
    assert inbox.bells() == []
    assert desk.state().owner == ALICE
    assert [entry.owner for entry in desk.state().line] == [CAROL]


@pytest.mark.parametrize("queue", [False, True])
@pytest.mark.parametrize("marker", [WHILE, 3_600_000])
def test_a_marker_does_not_prolong_a_grant(desk: Desk, queue: bool, marker: int) -> None:
    """An hour: the client learned the time before the server's clock was set back by as much."""
    desk.attempt(ALICE, ttl=1_000)
    if queue:
        desk.attempt(CAROL)
    desk.withdraw(BOB, desk.now() + marker)
    assert desk.time_left(desk.keys.main) <= 1_000 + TAIL
    desk.pass_time(1_001)
    assert desk.ask(DAVE)[:3:2] == [0, CAROL] if queue else fence_of(desk.ask(DAVE))


def test_a_marker_does_not_bring_a_lapsed_holder_back(desk: Desk) -> None:
    lapsed(desk)
    desk.withdraw(BOB, desk.now() + 3_600_000)
    assert fence_of(desk.ask(DAVE)), "ALICE's time was over"


def test_a_repeated_withdrawal_does_no_harm(desk: Desk) -> None:
    its_own_with_a_line(desk)
    until = desk.now() + WHILE
    assert [desk.withdraw(BOB, until) for _ in range(3)] == [1, 1, 1]
    assert desk.state().owner == CAROL


def test_markers_do_not_pile_up_on_a_name_in_constant_use(desk: Desk) -> None:
    """While a waiter is there the hash does not expire: its markers must be removed in another way."""
    desk.attempt(ALICE, ttl=600_000)
    desk.attempt(CAROL)
    for round_ in range(10):
        for n in range(50):
            desk.withdraw(owner(f"gave up {round_} {n}"), desk.now() + WHILE)
        desk.pass_time(WHILE + 1)
        desk.touch(CAROL)
    assert len(desk.state().markers) < 150
