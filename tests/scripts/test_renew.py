"""renew.lua: sets the time left of what is held; never creates, never revives."""

from __future__ import annotations

import pytest

from holdtight.memory.engine import TAIL
from tests.scripts.workbench import ALICE, BOB, Desk, fence_of


@pytest.mark.parametrize("ttl", [1_000, 60_000])
@pytest.mark.parametrize("queue", [False, True])
def test_it_sets_the_time_left_and_nothing_else(desk: Desk, ttl: int, queue: bool) -> None:
    fence = fence_of(desk.attempt(ALICE, ttl=30_000, label="etikett"))
    if queue:
        desk.attempt(BOB)
    before = desk.dump()
    assert desk.renew(ALICE, ttl=ttl) == 1
    assert ttl - 1_000 < desk.time_left(desk.keys.main) - TAIL <= ttl
    assert desk.dump() == before
    assert desk.state().fence == fence


def test_it_never_creates(desk: Desk) -> None:
    assert desk.renew(ALICE) == [0, b""]
    assert desk.dump() == {}


def test_it_does_not_take_a_tombstone_for_a_grant(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.release(ALICE)
    assert desk.renew(ALICE) == [0, b""]
    assert 0 < desk.time_left(desk.keys.main) <= TAIL


@pytest.mark.parametrize("after", [0, 1, TAIL - 200])
def test_it_never_revives_what_has_expired_but_can_still_be_seen(desk: Desk, after: int) -> None:
    desk.attempt(ALICE, ttl=1_000)
    desk.pass_time(1_000 + after)
    left = desk.time_left(desk.keys.main)
    assert left > 0
    assert desk.renew(ALICE) == [0, b""]
    assert desk.time_left(desk.keys.main) <= left


def test_a_marker_of_somebody_else_does_not_revive_it_either(desk: Desk) -> None:
    """A marker far in the future: its client learned the time before the server's clock was set back."""
    desk.attempt(ALICE, ttl=1_000)
    desk.pass_time(1_001)
    desk.withdraw(BOB, desk.now() + 3_600_000)
    assert desk.renew(ALICE) == [0, b""]


def test_what_another_holds_is_left_alone(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=1_000)
    assert desk.renew(BOB, ttl=60_000) == [0, ALICE]
    assert desk.time_left(desk.keys.main) <= 1_000 + TAIL


def test_a_late_renewal_is_refused_with_the_servers_time(desk: Desk) -> None:
    """A renewal that was stuck in a frozen server must not prolong what its sender has long given up."""
    desk.attempt(ALICE, ttl=1_000)
    now = desk.now()
    refused, told = desk.renew(ALICE, ttl=60_000, not_after=desk.now_us() - 1)
    assert refused == -1
    assert now <= told <= desk.now()
    assert desk.time_left(desk.keys.main) <= 1_000 + TAIL
