"""An attempt with cohort=True reserves a range of fences: the reply has the first of them, the record the last."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdtight.stores.memory.engine import TAIL
from holdtight.stores.times import FENCES
from tests.scripts.test_fence import HOUR_US, ahead
from tests.scripts.workbench import ALICE, BOB, HANDED_ON, Desk, fence_of
from tests.support.raw import ServerSaid


def reserved(desk: Desk, who: bytes = ALICE) -> range:
    """The fences that `who` gets, which the record covers."""
    first = fence_of(desk.attempt_cohort(who))
    state = desk.state()
    assert state.owner == who
    assert state.fence == first + FENCES - 1
    return range(first, first + FENCES)


def free(desk: Desk) -> None:
    """Nothing was there before."""


def freed(desk: Desk) -> None:
    desk.attempt(BOB)
    desk.release(BOB)


def lapsed(desk: Desk) -> None:
    desk.put_held(BOB, desk.now_us(), left=-1)


def held_by_alice(desk: Desk) -> None:
    """The reply to the first attempt was lost."""
    desk.attempt_cohort(ALICE)


def handed_to_alice(desk: Desk) -> None:
    desk.attempt(BOB)
    assert desk.attempt_cohort(ALICE)[0] == 0
    assert desk.release(BOB) in HANDED_ON


def ahead_of_the_clock(desk: Desk) -> None:
    desk.put_tombstone(ahead(desk))


@pytest.mark.parametrize(
    "before", [free, freed, lapsed, held_by_alice, handed_to_alice, ahead_of_the_clock], ids=lambda each: each.__name__
)
def test_every_fence_of_the_range_is_above_all_before_and_below_all_after(
    desk: Desk, before: Callable[[Desk], None]
) -> None:
    before(desk)
    highest = desk.state().fence if desk.state().value else 0
    fences = reserved(desk)
    assert fences[0] > highest
    assert desk.release(ALICE) == 1
    assert fence_of(desk.attempt(BOB)) > fences[-1]


def test_a_crash_leaves_the_last_fence_of_the_range_behind(desk: Desk) -> None:
    fences = reserved(desk)
    desk.pass_time(30_001)
    assert desk.attempt(BOB)[3] == ALICE
    assert desk.state().fence > fences[-1]


def test_the_floor_of_a_clock_that_was_set_back_covers_the_range(desk: Desk) -> None:
    desk.put_tombstone(ahead(desk))
    fences = reserved(desk)
    assert desk.state().floor == fences[-1]
    desk.wire.call("DEL", desk.keys.main)  # as after its expiry, an hour before the clock gets there
    assert fence_of(desk.attempt(BOB)) > fences[-1]
    assert fences[0] > desk.now_us() + HOUR_US // 2


def test_a_grant_keeps_its_time_and_its_label(desk: Desk) -> None:
    desk.attempt(ALICE, label="mine")
    desk.attempt_cohort(ALICE, ttl=20_000)
    assert desk.state().value.endswith(b"mine")
    assert 29_000 < desk.time_left(desk.keys.main) - TAIL <= 30_000


def test_who_is_not_granted_reserves_nothing(desk: Desk) -> None:
    desk.attempt(BOB)
    fence = desk.state().fence
    assert desk.attempt_cohort(ALICE)[0] == 0
    assert desk.attempt_cohort(BOB, not_after=0)[0] == -1
    assert desk.state().fence == fence


def test_a_key_of_another_program_is_refused_and_left_alone(desk: Desk) -> None:
    desk.wire.call("SET", desk.keys.main, "something else")
    said = desk.attempt_cohort(ALICE)
    assert isinstance(said, ServerSaid)
    assert str(said).startswith("HTFOREIGN")
    assert desk.wire.call("GET", desk.keys.main) == b"something else"
