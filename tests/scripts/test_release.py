"""release.lua: gives back the owner's own grant, and nothing else. test_handover.py shows the next holder."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import HEARTBEAT, TAIL
from tests.scripts.workbench import ALICE, BOB, CAROL, Desk, fence_of


def test_a_release_leaves_a_tombstone_with_the_fence_for_ten_seconds(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE))
    assert desk.release(ALICE) == 1
    assert desk.state().value == b"t1-%d" % fence
    assert TAIL - 1_000 < desk.time_left(desk.keys.main) <= TAIL
    assert list(desk.dump()) == [desk.keys.main]


def test_what_is_released_is_free(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE))
    desk.release(ALICE)
    assert fence_of(desk.ask(BOB)) > fence


@pytest.mark.parametrize("queue", [False, True])
def test_a_second_release_after_a_lost_reply_finds_nothing_of_ours(desk: Desk, queue: bool) -> None:
    desk.attempt(ALICE)
    if queue:
        desk.attempt(BOB)
    desk.release(ALICE)
    before = desk.dump()
    assert desk.release(ALICE) == [0, BOB if queue else b""]
    assert desk.dump() == before


@pytest.mark.parametrize("situation", ["nothing", "tombstone", "another's", "another's, with a line", "lapsed"])
def test_what_is_not_ours_stays_as_it_is(desk: Desk, situation: str) -> None:
    if situation != "nothing":
        desk.attempt(ALICE)
    if situation == "tombstone":
        desk.release(ALICE)
    if situation == "another's, with a line":
        desk.attempt(BOB)
        desk.attempt(CAROL)
    if situation == "lapsed":
        desk.pass_time(30_001)
    before = desk.dump()
    holder = ALICE if situation[:7] in ("another", "lapsed") else b""
    assert desk.release(BOB) == [0, holder]
    assert desk.dump() == before


def test_a_late_release_before_any_other_request_still_releases(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.pass_time(2_001)
    assert desk.release(ALICE) == 1
    assert isinstance(desk.attempt(BOB), bytes), "nobody expired"


def test_the_tombstone_of_a_name_with_a_line_is_flagged(desk: Desk) -> None:
    """All waiters are passed over: none is given the lock, and the next attempt must still see them."""
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=b"nobody listens")
    desk.release(ALICE)
    state = desk.state()
    assert state.value[:3] == b"t1q"
    assert [entry.owner for entry in state.line] == [BOB]


def test_the_flag_is_dropped_when_the_line_is_gone(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.withdraw(BOB)
    desk.release(ALICE)
    assert desk.state().value[:3] == b"t1-"


def test_a_line_that_died_out_leaves_nothing_but_a_tombstone(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=60_000)
    desk.attempt(BOB)
    desk.pass_time(HEARTBEAT + 1)
    assert desk.release(ALICE) == 1
    assert list(desk.dump()) == [desk.keys.main]
