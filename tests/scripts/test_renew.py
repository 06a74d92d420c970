"""renew.lua: lengthens a grant, shortens it only if it is provably the latest request; never creates or revives one."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight.stores.memory.engine import TAIL
from tests.scripts.workbench import ALICE, BOB, CAROL, Desk, fence_of

KINDS = pytest.mark.parametrize("kind", ["x", "r", "p"])


def ask(desk: Desk, who: bytes, kind: str) -> Any:
    return desk.attempt(who) if kind == "x" else desk.share(who, mode=kind, permits=3 if kind == "p" else 0)


def take(desk: Desk, who: bytes, kind: str) -> int:
    return fence_of(ask(desk, who, kind))


def left_of(desk: Desk, who: bytes) -> int:
    """ms that this holder still has."""
    state = desk.state()
    if state.owner == who:
        return desk.time_left(desk.keys.main) - TAIL
    return next(holder.expiry for holder in state.holders if holder.owner == who) - desk.now()


@pytest.mark.parametrize("queue", [False, True])
def test_it_gives_more_time_and_changes_nothing_else(desk: Desk, queue: bool) -> None:
    fence = fence_of(desk.attempt(ALICE, ttl=30_000, label="etikett"))
    if queue:
        desk.attempt(BOB)
    before = desk.dump()
    assert desk.renew(ALICE, ttl=60_000) == 1
    assert left_of(desk, ALICE) > 59_000
    assert desk.dump() == before
    assert desk.state().fence == fence


@KINDS
@pytest.mark.parametrize("queue", [False, True])
def test_it_takes_no_time_away(desk: Desk, kind: str, queue: bool) -> None:
    """It may be an old one that comes late, after `lease.renew(ttl=60)`."""
    take(desk, ALICE, kind)
    if queue:
        desk.withdraw(BOB, desk.now() + 2_000)
    desk.renew(ALICE, ttl=60_000)
    before = desk.dump()
    assert desk.renew(ALICE, ttl=1_000) == 1
    assert left_of(desk, ALICE) > 59_000
    assert desk.dump() == before


@KINDS
def test_with_an_ordinal_it_sets_the_time_left(desk: Desk, kind: str) -> None:
    take(desk, ALICE, kind)
    assert desk.renew(ALICE, ttl=1_000, ordinal=2) == 1
    assert 0 < left_of(desk, ALICE) <= 1_000
    assert desk.renew(ALICE, ttl=60_000, ordinal=3) == 1
    assert left_of(desk, ALICE) > 59_000
    assert desk.state().ordinals == {ALICE: 3}
    assert desk.state().flagged, "or nobody looks for the ordinal"


@KINDS
@pytest.mark.parametrize("ordinal", [0, 1, 2, 3])
def test_an_older_one_is_refused_as_late(desk: Desk, kind: str, ordinal: int) -> None:
    take(desk, ALICE, kind)
    desk.renew(ALICE, ttl=5_000, ordinal=3)
    before = desk.dump()
    for ttl in (1_000, 60_000):
        assert desk.renew(ALICE, ttl=ttl, ordinal=ordinal)[0] == -1
    assert desk.dump() == before
    assert 4_000 < left_of(desk, ALICE) <= 5_000


@KINDS
def test_an_ordinal_is_the_owners_own(desk: Desk, kind: str) -> None:
    take(desk, ALICE, kind)
    if kind != "x":
        take(desk, BOB, kind)
        desk.renew(ALICE, ttl=5_000, ordinal=3)
        assert desk.renew(BOB, ttl=60_000) == 1
        assert left_of(desk, BOB) > 59_000
    desk.release(ALICE)
    assert take(desk, CAROL, kind)
    assert desk.renew(CAROL, ttl=60_000) == 1


@KINDS
def test_a_late_attempt_neither_gives_nor_takes_time(desk: Desk, kind: str) -> None:
    """A marker of an owner that shortened its lease, or of one that was detached."""
    take(desk, ALICE, kind)
    desk.renew(ALICE, ttl=5_000, ordinal=1)
    before = desk.dump()
    assert ask(desk, ALICE, kind)[0] == -3
    assert desk.dump() == before


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


def test_a_marker_of_another_owner_does_not_revive_it_either(desk: Desk) -> None:
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
    """A renewal that was stuck in a frozen server must not prolong a lease that its sender has long given up."""
    desk.attempt(ALICE, ttl=1_000)
    now = desk.now()
    refused, told = desk.renew(ALICE, ttl=60_000, not_after=desk.now_us() - 1)
    assert refused == -1
    assert now <= told <= desk.now()
    assert desk.time_left(desk.keys.main) <= 1_000 + TAIL


@KINDS
def test_what_was_set_before_the_clock_was_set_back_does_not_stick(desk: Desk, kind: str) -> None:
    """Its fence is an hour ahead, and so is its end: no late request can have done that."""
    hour = 3_600_000
    desk.put_tombstone(desk.now_us() + hour * 1000)
    take(desk, ALICE, kind)
    if kind == "x":
        desk.wire.call("PEXPIRE", desk.keys.main, hour + 30_000)
    else:
        desk.wire.call("ZINCRBY", desk.keys.holders, hour, ALICE)
    assert desk.renew(ALICE, ttl=30_000) == 1
    assert 29_000 < left_of(desk, ALICE) <= 30_000
    assert desk.renew(ALICE, ttl=1_000) == 1
    assert left_of(desk, ALICE) > 28_000, "and from then on it only grows again"
