"""Fences rise, whatever happens to the server's data and clock.

A clock that was an hour ahead and has been set back is made by hand: a stored fence that is an hour ahead.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdtight.stores.memory.engine import CLAIM, TAIL
from tests.scripts.workbench import ALICE, BOB, CAROL, HANDED_ON, Desk, fence_of, owner

HOUR_US = 3_600_000_000
HOUR = 3_600_000


def ahead(desk: Desk) -> int:
    return desk.now_us() + HOUR_US


def test_every_grant_has_a_higher_fence(desk: Desk) -> None:
    fences = []
    for n in range(100):
        fences.append(fence_of(desk.attempt(owner(str(n)))))
        desk.release(owner(str(n)))
    assert fences == sorted(set(fences))


def test_every_hand_over_has_a_higher_fence(desk: Desk) -> None:
    fences = [fence_of(desk.attempt(ALICE))]
    waiting = [owner(str(n)) for n in range(50)]
    for who in waiting:
        desk.attempt(who)
    for who in [ALICE, *waiting[:-1]]:
        desk.release(who)
        fences.append(desk.state().fence)
    assert fences == sorted(set(fences))


def test_it_rises_after_the_server_lost_everything(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE))
    desk.wire.call("FLUSHALL")
    assert fence_of(desk.attempt(BOB)) > fence


def test_it_rises_after_the_tombstone_has_expired(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE))
    desk.release(ALICE)
    desk.pass_time(TAIL + 1)
    assert not desk.dump()
    assert fence_of(desk.attempt(BOB)) > fence


# Each way in which a name with a fence that is ahead of the clock can get a grant, or lose one


def taken_from_a_tombstone(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_tombstone(fence)
    granted = fence_of(desk.attempt(ALICE, ttl=1_000))
    assert granted == fence + 1
    return granted


def taken_from_a_lapsed_holder(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(BOB, fence, left=-1)
    granted, text, _, expired = desk.attempt(ALICE, ttl=1_000)
    assert (granted, int(text), expired) == (1, fence + 1, BOB)
    return int(text)


def taken_though_others_are_passed_over(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(BOB, fence)
    desk.attempt(CAROL, inbox=b"nobody listens")
    desk.release(BOB)
    granted = fence_of(desk.attempt(ALICE, ttl=1_000))
    assert granted == fence + 1
    return granted


def asked_again(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(ALICE, fence)
    assert desk.attempt(ALICE, ttl=1_000)[1] == b"%d" % fence
    return fence


def renewed(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(ALICE, fence)
    assert desk.renew(ALICE, ttl=1_000) == 1
    return fence


def adopted(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(BOB, fence)
    assert desk.adopt(BOB, ALICE, ttl=1_000)[1] == b"%d" % (fence + 1)
    return fence + 1


def adopted_twice(desk: Desk) -> int:
    fence = adopted(desk)
    assert desk.adopt(BOB, ALICE, ttl=1_000)[1] == b"%d" % fence
    return fence


def handed_over(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(BOB, fence)
    desk.attempt(ALICE, ttl=1_000)
    assert desk.release(BOB) in HANDED_ON
    assert (desk.state().owner, desk.state().fence) == (ALICE, fence + 1)
    return fence + 1


def handed_over_and_confirmed(desk: Desk) -> int:
    fence = handed_over(desk)
    assert fence_of(desk.attempt(ALICE, ttl=1_000)) == fence
    return fence


def handed_over_by_one_who_left(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(BOB, fence, left=2_000)
    desk.attempt(CAROL)
    desk.attempt(ALICE, ttl=1_000)
    desk.pass_time(2_001)
    assert desk.withdraw(CAROL) == 1
    assert (desk.state().owner, desk.state().fence) == (ALICE, fence + 1)
    return fence + 1


def released(desk: Desk) -> int:
    fence = taken_from_a_tombstone(desk)
    assert desk.release(ALICE) == 1
    return fence


def withdrawn(desk: Desk) -> int:
    fence = taken_from_a_tombstone(desk)
    assert desk.withdraw(ALICE, desk.now() + 2_000) == 1
    return fence


def released_with_a_line_nobody_of_which_listens(desk: Desk) -> int:
    fence = taken_from_a_tombstone(desk)
    desk.attempt(CAROL, inbox=b"nobody listens")
    assert desk.release(ALICE) == 1
    return fence


# … and sharers


def read_from_a_tombstone(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_tombstone(fence)
    granted = fence_of(desk.read(ALICE, ttl=1_000))
    assert granted == fence + 1
    return granted


def permitted_from_a_tombstone(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_tombstone(fence)
    granted = fence_of(desk.permit(ALICE, 2, of=2, ttl=1_000))
    assert granted == fence + 1
    return granted


def joined_by_a_reader(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_tombstone(fence)
    desk.read(CAROL, ttl=1_000)
    granted = fence_of(desk.read(ALICE, ttl=500))
    assert granted == fence + 2
    return granted


def a_reader_asked_again(desk: Desk) -> int:
    fence = read_from_a_tombstone(desk)
    assert fence_of(desk.read(ALICE, ttl=500)) == fence
    return fence


def a_reader_renewed(desk: Desk) -> int:
    fence = read_from_a_tombstone(desk)
    assert desk.renew(ALICE, ttl=500) == 1
    return fence


def readers_let_in(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(BOB, fence)
    for who in (ALICE, CAROL):
        desk.read(who, ttl=1_000)
    assert desk.release(BOB) == 1
    assert desk.state().fence == fence + 2
    return fence + 2


def readers_released(desk: Desk) -> int:
    fence = joined_by_a_reader(desk)
    assert [desk.release(ALICE), desk.release(CAROL)] == [1, 1]
    return fence


def a_reader_withdrawn(desk: Desk) -> int:
    fence = read_from_a_tombstone(desk)
    assert desk.withdraw(ALICE, desk.now() + 2_000) == 1
    return fence


def taken_after_readers(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_tombstone(fence)
    desk.read(CAROL, ttl=2_000)
    desk.pass_time(2_001)
    granted = fence_of(desk.attempt(ALICE, ttl=1_000))
    assert granted == fence + 2
    return granted


def downgraded(desk: Desk) -> int:
    fence = ahead(desk)
    desk.put_held(ALICE, fence)
    assert desk.downgrade(ALICE, ttl=1_000)[1] == b"%d" % (fence + 1)
    return fence + 1


ways = pytest.mark.parametrize(
    "way",
    [
        taken_from_a_tombstone,
        taken_from_a_lapsed_holder,
        taken_though_others_are_passed_over,
        asked_again,
        renewed,
        adopted,
        adopted_twice,
        handed_over,
        handed_over_and_confirmed,
        handed_over_by_one_who_left,
        released,
        withdrawn,
        released_with_a_line_nobody_of_which_listens,
        read_from_a_tombstone,
        permitted_from_a_tombstone,
        joined_by_a_reader,
        a_reader_asked_again,
        a_reader_renewed,
        readers_let_in,
        readers_released,
        a_reader_withdrawn,
        taken_after_readers,
        downgraded,
    ],
    ids=lambda function: function.__name__,
)
# At once; when the claim or the ttl is over; when main is forgotten; before and after the clock catches up.
moments = pytest.mark.parametrize("later", [0, CLAIM + 1, 1_001, 1_001 + TAIL, HOUR - 5_000, HOUR + 5_000])


@ways
@moments
def test_a_fence_ahead_of_the_clock_is_remembered_until_the_clock_has_passed_it(
    desk: Desk, way: Callable[[Desk], int], later: int
) -> None:
    fence = way(desk)
    desk.pass_time(later)
    desk.release(ALICE)
    desk.release(CAROL)
    assert fence_of(desk.attempt(BOB)) > fence


@ways
def test_and_then_it_is_forgotten(desk: Desk, way: Callable[[Desk], int]) -> None:
    way(desk)
    desk.pass_time(HOUR + TAIL + 5_000)
    assert desk.dump() == {}


def test_the_grant_says_the_time_too_since_the_fence_does_not(desk: Desk) -> None:
    desk.put_tombstone(ahead(desk))
    before = desk.now()
    _, _, now, _ = desk.attempt(ALICE)
    assert before <= now <= desk.now()


def test_a_server_out_of_memory_does_not_forget_a_fence_ahead_of_its_clock(desk: Desk) -> None:
    fence = ahead(desk)
    desk.put_held(ALICE, fence)
    desk.wire.call("CONFIG", "SET", "maxmemory", "1")
    try:
        assert desk.release(ALICE) == 1
    finally:
        desk.wire.call("CONFIG", "SET", "maxmemory", "0")
    assert fence_of(desk.attempt(BOB)) > fence
