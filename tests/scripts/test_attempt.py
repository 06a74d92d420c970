"""attempt.lua: first request, confirmation and retry alike. Hand-over has its own file."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import HEARTBEAT, TAIL
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, fence_of, owner


def test_a_free_name_is_granted_with_the_clock_as_its_fence(desk: Desk) -> None:
    before = desk.now_us()
    fence = fence_of(desk.attempt(ALICE, ttl=30_000, label="räume auf"))
    assert before <= fence <= desk.now_us()
    state = desk.state()
    assert state.value == b"x1-" + ALICE + b"%d" % fence + "räume auf".encode()
    assert 29_000 + TAIL < desk.time_left(desk.keys.main) <= 30_000 + TAIL
    assert list(desk.dump()) == [desk.keys.main]


def test_a_fence_has_sixteen_digits_in_the_first_microsecond_of_a_second_too(desk: Desk) -> None:
    """The clock's microseconds come without leading zeros."""
    fences = [fence_of(desk.attempt(owner(str(n)))) for n in range(50) if desk.wire.call("FLUSHALL")]
    assert all(len(str(fence)) == 16 for fence in fences)
    assert fences == sorted(set(fences))


@pytest.mark.parametrize("queue", [False, True])
def test_asking_again_after_a_lost_reply_brings_the_same_grant(desk: Desk, queue: bool) -> None:
    fence = fence_of(desk.attempt(ALICE, ttl=1_000))
    if queue:
        desk.attempt(BOB)
    desk.pass_time(900)
    assert desk.attempt(ALICE, ttl=30_000)[:2] == [1, b"%d" % fence]
    assert 39_000 < desk.time_left(desk.keys.main) <= 40_000
    assert [entry.owner for entry in desk.state().line] == ([BOB] if queue else [])


def test_a_caller_that_only_asks_is_told_of_the_holder_and_leaves_no_trace(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=20_000)
    before = desk.dump()
    no, _, holder, left, position, look = desk.ask(BOB)
    assert (no, holder, position) == (0, ALICE, 0)
    assert 19_000 < left == look <= 20_000
    assert desk.dump() == before


def test_a_waiter_joins_the_end_of_the_line(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=20_000)
    main = desk.time_left(desk.keys.main)
    first = desk.attempt(BOB, ttl=400, inbox=b"bob's", label="büro")
    second = desk.attempt(CAROL)
    assert [reply[0] for reply in (first, second)] == [0, 0]
    assert [reply[4] for reply in (first, second)] == [1, 2]
    assert first[5] == first[3]
    assert second[5] == second[3] + 250, "the second looks a little later than the first"
    bob, carol = desk.state().line
    assert (bob.owner, bob.ttl, bob.inbox, bob.label) == (BOB, 400, b"bob's", "büro".encode())
    assert carol.owner == CAROL
    assert bob.expiry == first[1] + HEARTBEAT
    assert bob.joined == first[1]
    assert main - 1_000 < desk.time_left(desk.keys.main) <= main, "the holder's time is not touched"
    assert desk.state().flagged


def test_asking_again_keeps_the_place_and_brings_the_rest_up_to_date(desk: Desk) -> None:
    desk.attempt(ALICE)
    joined = desk.attempt(BOB, ttl=1_000, inbox=b"old", label="old")[1]
    desk.attempt(CAROL)
    assert desk.attempt(BOB, ttl=2_000, inbox=b"new one", label="")[4] == 1
    bob = desk.state().line[0]
    assert (bob.owner, bob.ttl, bob.inbox, bob.label, bob.joined) == (BOB, 2_000, b"new one", b"", joined)


def test_a_dead_waiter_that_comes_back_before_it_is_swept_still_has_its_place(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.pass_time(HEARTBEAT - 100)
    desk.attempt(CAROL)
    desk.pass_time(200)
    assert desk.attempt(BOB)[4] == 1


def test_the_longest_inbox_and_label_fit(desk: Desk) -> None:
    desk.attempt(ALICE, label="ü" * 64)
    desk.attempt(BOB, inbox=b"i" * 99, label="ü" * 64, ttl=604_800_000)
    bob = desk.state().line[0]
    assert (bob.inbox, bob.label, bob.ttl) == (b"i" * 99, "ü".encode() * 64, 604_800_000)


# Late


@pytest.mark.parametrize("situation", ["free", "mine", "held", "in line", "lapsed"])
def test_a_late_attempt_is_refused_with_the_servers_time(desk: Desk, situation: str) -> None:
    if situation != "free":
        desk.attempt(ALICE if situation == "mine" else BOB)
    if situation == "in line":
        desk.attempt(ALICE)
    if situation == "lapsed":
        desk.pass_time(30_001)
    before = desk.dump()
    now = desk.now()
    refused, told = desk.attempt(ALICE, not_after=desk.now_us() - 1)
    assert refused == -1
    assert now <= told <= desk.now()
    assert desk.dump() == before


def test_an_attempt_before_its_limit_is_not_late(desk: Desk) -> None:
    assert fence_of(desk.attempt(ALICE, not_after=desk.now_us() + 2_000_000))


# Expired holders


@pytest.mark.parametrize("queue", [False, True])
def test_the_next_taker_learns_that_the_holder_expired(desk: Desk, queue: bool) -> None:
    desk.attempt(ALICE, ttl=1_000)
    if queue:
        desk.attempt(BOB)
    desk.pass_time(1_001)
    granted, _, _, expired = desk.attempt(BOB)
    assert (granted, expired) == (1, ALICE)


def test_nobody_expired_where_the_holder_released_or_was_forgotten(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.release(ALICE)
    assert isinstance(desk.attempt(BOB, ttl=1_000), bytes)
    desk.pass_time(1_000 + TAIL + 1)
    assert isinstance(desk.attempt(CAROL), bytes)


def test_a_holder_that_asks_after_its_time_gets_a_new_grant(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE, ttl=1_000))
    desk.pass_time(1_001)
    assert fence_of(desk.attempt(ALICE)) > fence


def test_a_waiter_that_missed_a_hand_over_is_not_called_an_expired_holder(desk: Desk) -> None:
    """It never held the lock, and the taker would count a lost lease that did not exist."""
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.attempt(CAROL)
    desk.release(ALICE)
    desk.pass_time(501)
    granted, _, _, expired = desk.attempt(CAROL)
    assert (granted, expired) == (1, b"")


def test_a_waiter_that_missed_its_own_hand_over_is_not_told_that_it_expired(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.release(ALICE)
    desk.pass_time(501)
    granted, _, _, expired = desk.attempt(BOB)
    assert (granted, expired) == (1, b"")


# A full line


def test_a_full_line_takes_no_newcomer_but_keeps_its_waiters(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, limit=2)
    desk.attempt(CAROL, limit=2)
    before = desk.dump()
    refused, _, waiting = desk.attempt(DAVE, limit=2)
    assert (refused, waiting) == (-2, 2)
    assert desk.dump() == before
    assert desk.attempt(BOB, limit=2)[4] == 1


def test_the_dead_do_not_fill_a_line(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.crowd(3, dead=True)
    assert desk.attempt(BOB, limit=3)[:1] == [0]
    assert [entry.owner for entry in desk.state().line] == [BOB]


# A line that is gone


def test_a_waiter_with_an_entry_but_no_line_any_more_joins_anew(desk: Desk) -> None:
    """Markers and a fence's floor can keep the hash longer than the line. The waiter must not fail."""
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.withdraw(CAROL, desk.now() + 60_000)
    desk.pass_time(HEARTBEAT + 1)
    assert not desk.wire.call("EXISTS", desk.keys.queue)
    assert desk.wire.call("HEXISTS", desk.keys.waiters, BOB), "otherwise this test shows nothing"
    reply = desk.attempt(BOB)
    assert isinstance(reply, list), reply
    assert (reply[0], reply[2], reply[4]) == (0, ALICE, 1)
    assert [entry.owner for entry in desk.state().line] == [BOB]


def test_a_grant_clears_away_what_was_left_of_the_waiter(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.wire.call("DEL", desk.keys.queue)
    desk.pass_time(30_001)
    desk.wire.call("PEXPIRE", desk.keys.waiters, 5_000)
    desk.attempt(BOB)
    assert not desk.wire.call("HEXISTS", desk.keys.waiters, BOB)
