"""renew_alone.lua: as renew.lua for an exclusive grant, with the main key alone; otherwise it says to ask renew.lua."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight.stores.memory.engine import TAIL
from holdtight.stores.redis.slots import RENEW_ALONE
from tests.scripts.workbench import ALICE, BOB, FAR, Desk, fence_of


def renew(desk: Desk, who: bytes, ttl: int = 30_000, not_after: int = FAR) -> Any:
    return desk.run(RENEW_ALONE, owner=who, ttl=ttl, not_after=not_after)


def is_left_to_the_other(reply: object) -> bool:
    return isinstance(reply, Exception) and "HTWIDE" in str(reply)


@pytest.mark.parametrize("queue", [False, True])
def test_it_gives_more_time_and_changes_nothing_else(desk: Desk, queue: bool) -> None:
    fence = fence_of(desk.attempt(ALICE, ttl=30_000, label="etikett"))
    if queue:
        desk.attempt(BOB)
    before = desk.dump()
    assert renew(desk, ALICE, 60_000) == 1
    assert desk.time_left(desk.keys.main) > 59_000 + TAIL
    assert renew(desk, ALICE, 1_000) == 1
    assert desk.time_left(desk.keys.main) > 59_000 + TAIL, "it takes no time away"
    assert (desk.dump(), desk.state().fence) == (before, fence)


def test_it_neither_creates_nor_revives_a_grant(desk: Desk) -> None:
    assert is_left_to_the_other(renew(desk, ALICE))
    assert desk.dump() == {}
    desk.attempt(ALICE, ttl=1_000)
    desk.pass_time(1_001)
    before = desk.dump()
    assert is_left_to_the_other(renew(desk, ALICE))
    assert desk.dump() == before


def test_the_grant_of_another_owner_is_left_alone(desk: Desk) -> None:
    desk.attempt(BOB)
    before, left = desk.dump(), desk.time_left(desk.keys.main)
    assert is_left_to_the_other(renew(desk, ALICE, 60_000))
    assert desk.dump() == before
    assert desk.time_left(desk.keys.main) <= left


@pytest.mark.parametrize("mode", ["r", "p"])
def test_shared_grants_are_left_to_the_other(desk: Desk, mode: str) -> None:
    desk.share(ALICE, mode=mode, permits=3 if mode == "p" else 0)
    assert is_left_to_the_other(renew(desk, ALICE))


def test_a_late_one_changes_nothing(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=1_000)
    now = desk.now()
    assert renew(desk, ALICE, 60_000, not_after=now * 1000 - 1)[0] == -1
    assert desk.time_left(desk.keys.main) <= 1_000 + TAIL


def test_a_fence_ahead_of_the_clock_is_left_to_the_other(desk: Desk) -> None:
    """It must be kept among the waiters, which this script does not touch."""
    desk.put_held(ALICE, desk.now_us() + 3_600_000_000)
    assert is_left_to_the_other(renew(desk, ALICE))
    assert desk.renew(ALICE) == 1
