"""adopt.lua: takes a detached grant over, once."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import TAIL
from tests.scripts.workbench import ALICE, BOB, CAROL, HANDED_ON, Desk, fence_of


@pytest.mark.parametrize("queue", [False, True])
def test_it_takes_over_in_one_step_with_a_higher_fence(desk: Desk, queue: bool) -> None:
    fence = fence_of(desk.attempt(ALICE, ttl=1_000, label="alt"))
    if queue:
        desk.attempt(CAROL)
    adopted, text, _, expired = desk.adopt(ALICE, BOB, ttl=30_000, label="neu")
    assert (adopted, expired) == (1, b"")
    assert int(text) > fence
    state = desk.state()
    assert (state.owner, state.fence, state.value[43:]) == (BOB, int(text), b"neu")
    assert 29_000 < desk.time_left(desk.keys.main) - TAIL <= 30_000
    assert state.flagged == queue, "the line must not be forgotten"


def test_asking_again_after_a_lost_reply_brings_the_same_grant(desk: Desk) -> None:
    desk.attempt(ALICE)
    first = desk.adopt(ALICE, BOB, ttl=1_000)
    desk.pass_time(900)
    assert desk.adopt(ALICE, BOB, ttl=1_000)[:2] == first[:2]
    assert desk.time_left(desk.keys.main) > 500 + TAIL


def test_a_second_adopter_comes_too_late(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.adopt(ALICE, BOB)
    before = desk.dump()
    no, _, holder = desk.adopt(ALICE, CAROL)
    assert (no, holder) == (0, BOB)
    assert desk.dump() == before


def test_the_old_owner_can_do_nothing_any_more(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.adopt(ALICE, BOB)
    before = desk.dump()
    assert desk.renew(ALICE) == [0, BOB]
    assert desk.release(ALICE) == [0, BOB]
    assert desk.withdraw(ALICE) == 1
    assert desk.dump() == before


@pytest.mark.parametrize("situation", ["nothing there", "tombstone", "lapsed"])
def test_what_is_over_cannot_be_adopted(desk: Desk, situation: str) -> None:
    if situation != "nothing there":
        desk.attempt(ALICE, ttl=1_000)
    if situation == "tombstone":
        desk.release(ALICE)
    if situation == "lapsed":
        desk.pass_time(1_001)
    before = desk.dump()
    no, _, holder = desk.adopt(ALICE, BOB)
    assert (no, holder) == (0, b"")
    assert desk.dump() == before


def test_a_late_adoption_is_refused(desk: Desk) -> None:
    desk.attempt(ALICE)
    before = desk.dump()
    assert desk.adopt(ALICE, BOB, not_after=desk.now_us() - 1)[0] == -1
    assert desk.dump() == before


def test_after_an_adoption_the_line_is_served_as_ever(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(CAROL)
    desk.adopt(ALICE, BOB)
    assert desk.release(BOB) in HANDED_ON
    assert desk.state().owner == CAROL


def test_an_adoption_that_was_withdrawn_is_refused_when_it_comes(desk: Desk) -> None:
    """No client would hold it, and it would stay until its ttl ends."""
    desk.attempt(ALICE)
    desk.withdraw(BOB, desk.now() + 2_000)
    before = desk.dump()
    assert desk.adopt(ALICE, BOB)[0] == -3
    assert desk.dump() == before
    assert desk.adopt(ALICE, CAROL)[0] == 1, "others may"


def test_a_repeated_adoption_takes_no_time_away(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.adopt(ALICE, BOB)
    desk.renew(BOB, ttl=60_000)
    assert desk.adopt(ALICE, BOB, ttl=1_000)[0] == 1
    assert desk.time_left(desk.keys.main) > 59_000 + TAIL
    desk.renew(BOB, ttl=5_000, ordinal=1)
    assert desk.adopt(ALICE, BOB, ttl=60_000)[0] == -3
    assert desk.time_left(desk.keys.main) <= 5_000 + TAIL
