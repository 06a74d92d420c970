"""attempt_shared.lua for readers: they share, a writer waits for all of them, and later readers wait for the writer."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import CLAIM, HEARTBEAT, TAIL
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, Inbox, fence_of, owner, sharing

ERIN = owner("erin")
NOBODY_LISTENS = b"an inbox without a listener"


# Alone and together


def test_a_free_name_is_granted_with_the_clock_as_its_fence(desk: Desk) -> None:
    before = desk.now_us()
    reply = desk.read(ALICE, ttl=30_000, label="lies mich")
    assert isinstance(reply, bytes)
    assert before <= int(reply) <= desk.now_us()
    state = desk.state()
    assert state.value == b"s1-" + reply
    (alice,) = state.holders
    assert (alice.owner, alice.mode, alice.n, alice.fence) == (ALICE, "r", 1, int(reply))
    assert alice.label == b"lies mich"
    assert 29_000 < alice.expiry - desk.now() <= 30_000
    for key in (desk.keys.main, desk.keys.waiters, desk.keys.holders):
        assert 29_000 + TAIL < desk.time_left(key) <= 30_000 + TAIL


def test_readers_share_and_each_has_a_higher_fence(desk: Desk) -> None:
    fences = [fence_of(desk.read(who)) for who in (ALICE, BOB, CAROL)]
    assert fences == sorted(set(fences))
    assert sharing(desk) == [ALICE, BOB, CAROL]
    assert desk.state().value == b"s1-%d" % fences[-1]


def test_a_thousand_readers_cost_no_more_calls_than_two(desk: Desk) -> None:
    desk.read(ALICE)
    desk.read(BOB)

    def calls() -> int:
        desk.wire.call("CONFIG", "RESETSTAT")
        desk.read(CAROL)
        desk.release(CAROL)
        stats = desk.server.info("commandstats")
        return sum(int(text.split(",")[0][6:]) for name, text in stats.items() if name != "cmdstat_info")

    few = calls()
    desk.crowd_in(1_000, mode="r")
    assert calls() == few


@pytest.mark.parametrize("writer", [False, True])
def test_asking_again_after_a_lost_reply_brings_the_same_grant(desk: Desk, writer: bool) -> None:
    fence = fence_of(desk.read(ALICE, ttl=1_000))
    desk.read(BOB, ttl=60_000)
    if writer:
        desk.attempt(CAROL)
    desk.pass_time(900)
    assert desk.read(ALICE, ttl=30_000)[:2] == [1, b"%d" % fence]
    alice = next(each for each in desk.state().holders if each.owner == ALICE)
    assert 29_000 < alice.expiry - desk.now() <= 30_000
    assert sharing(desk) == [ALICE, BOB]


def test_the_keys_stay_for_as_long_as_the_last_reader_and_are_never_shortened(desk: Desk) -> None:
    desk.read(ALICE, ttl=60_000)
    desk.read(BOB, ttl=1_000)
    desk.renew(BOB, ttl=500)
    desk.read(BOB, ttl=400)
    desk.withdraw(DAVE, desk.now() + 2_000)
    desk.read(CAROL, ttl=300)
    for key in (desk.keys.main, desk.keys.waiters, desk.keys.holders):
        assert desk.time_left(key) > 59_000 + TAIL


def test_a_release_leaves_the_other_readers_in(desk: Desk) -> None:
    desk.read(ALICE)
    desk.read(BOB)
    assert desk.release(ALICE) == 1
    assert sharing(desk) == [BOB]
    assert desk.attempt(CAROL)[:3:2] == [0, BOB]


def test_the_last_to_go_leaves_a_tombstone_with_the_last_fence(desk: Desk) -> None:
    desk.read(ALICE)
    fence = fence_of(desk.read(BOB))
    assert [desk.release(BOB), desk.release(ALICE)] == [1, 1]
    assert desk.state().value == b"t1-%d" % fence
    assert list(desk.dump()) == [desk.keys.main]
    assert TAIL - 1_000 < desk.time_left(desk.keys.main) <= TAIL


@pytest.mark.parametrize("writer", [False, True])
def test_a_second_release_finds_nothing_of_ours(desk: Desk, writer: bool) -> None:
    desk.read(ALICE)
    desk.read(BOB)
    if writer:
        desk.attempt(CAROL)
    desk.release(ALICE)
    before = desk.dump()
    assert desk.release(ALICE) == [0, b""]
    assert desk.release(DAVE) == [0, b""]
    assert desk.dump() == before


@pytest.mark.parametrize("ttl", [1_000, 60_000])
def test_a_renewal_sets_the_time_of_one_reader_only(desk: Desk, ttl: int) -> None:
    desk.read(ALICE, ttl=30_000)
    desk.read(BOB, ttl=20_000)
    assert desk.renew(ALICE, ttl=ttl, ordinal=1) == 1
    left = {each.owner: each.expiry - desk.now() for each in desk.state().holders}
    assert ttl - 1_000 < left[ALICE] <= ttl
    assert 19_000 < left[BOB] <= 20_000


def test_a_renewal_neither_creates_nor_revives(desk: Desk) -> None:
    desk.read(ALICE, ttl=1_000)
    desk.read(BOB)
    assert desk.renew(CAROL) == [0, b""]
    desk.pass_time(1_000)
    assert desk.renew(ALICE) == [0, b""]
    assert sharing(desk) == [BOB]
    assert desk.renew(BOB, not_after=desk.now_us() - 1)[0] == -1


# A writer


def test_a_writer_waits_for_the_last_reader(desk: Desk) -> None:
    desk.read(ALICE, ttl=20_000)
    desk.read(BOB, ttl=10_000)
    no, _, holder, left, position, look = desk.attempt(CAROL)
    assert (no, holder, position) == (0, ALICE, 1)
    assert 19_000 < left == look <= 20_000
    desk.release(ALICE)
    no, _, holder, left, *_ = desk.attempt(CAROL)
    assert (no, holder) == (0, BOB)
    assert 9_000 < left <= 10_000


def test_the_last_reader_to_go_gives_it_to_the_writer(desk: Desk, inbox: Inbox) -> None:
    fences = [fence_of(desk.read(who)) for who in (ALICE, BOB)]
    desk.attempt(CAROL, inbox=INBOX)
    desk.release(ALICE)
    assert inbox.bells() == []
    desk.release(BOB)
    assert inbox.bells() == [b"g" + CAROL]
    state = desk.state()
    assert (state.owner, state.holders) == (CAROL, [])
    assert state.fence > max(fences)


def test_a_caller_that_only_asks_for_the_whole_leaves_no_trace(desk: Desk) -> None:
    desk.read(ALICE, ttl=20_000)
    before = desk.dump()
    assert desk.ask(BOB)[:3:2] == [0, ALICE]
    assert desk.dump() == before


def test_a_waiting_writer_stops_later_readers(desk: Desk) -> None:
    desk.read(ALICE, ttl=20_000)
    desk.read(BOB, ttl=10_000)
    desk.attempt(CAROL)
    no, _, holder, left, position, look = desk.read(DAVE)
    assert (no, holder, position) == (0, BOB, 2), "told of the reader that expires first"
    assert 9_000 < left <= 10_000
    assert look == HEARTBEAT + 250, "for the writer may die, and nobody would tell"
    assert desk.read(ERIN, limit=0)[0] == 0
    assert sharing(desk) == [ALICE, BOB]


def test_a_reader_waits_for_the_writer_that_holds_it(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=20_000)
    no, _, holder, left, position, _ = desk.read(BOB)
    assert (no, holder, position) == (0, ALICE, 1)
    assert 19_000 < left <= 20_000
    assert desk.state().line[0].mode == "r"


def test_a_dead_writer_in_line_stops_nobody(desk: Desk) -> None:
    desk.read(ALICE, ttl=60_000)
    desk.attempt(BOB)
    desk.pass_time(HEARTBEAT - 100)
    assert desk.read(CAROL)[0] == 0
    desk.pass_time(200)
    assert fence_of(desk.read(DAVE)), "which finds that CAROL comes first, and lets it in too"
    assert sharing(desk) == [ALICE, CAROL, DAVE]


def test_a_reader_behind_a_dead_writer_finds_out_by_itself(desk: Desk, inbox: Inbox) -> None:
    """However long the reader's lease is: no release comes, and no other request."""
    desk.read(ALICE, ttl=3_600_000)
    desk.attempt(BOB)
    looks = [desk.read(who, inbox=INBOX)[5] for who in (CAROL, DAVE)]
    assert looks == [HEARTBEAT + 250, HEARTBEAT + 500]
    desk.pass_time(HEARTBEAT - 100)
    for who in (CAROL, DAVE):
        desk.touch(who)
    desk.pass_time(350)
    assert fence_of(desk.read(CAROL, inbox=INBOX))
    assert inbox.bells() == [b"g" + DAVE]


def test_a_writer_that_is_passed_over_stops_no_reader(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=NOBODY_LISTENS)
    desk.release(ALICE)
    assert fence_of(desk.read(CAROL))
    assert fence_of(desk.read(DAVE))
    assert desk.attempt(BOB)[4] == 1, "until it asks"
    assert desk.read(ERIN)[0] == 0


def test_a_writer_that_gives_up_lets_those_behind_it_in(desk: Desk, inbox: Inbox) -> None:
    desk.read(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    for who in (CAROL, DAVE):
        desk.read(who, inbox=INBOX)
    assert desk.withdraw(BOB) == 1
    assert inbox.bells() == [b"g" + CAROL, b"g" + DAVE]
    assert sharing(desk) == [ALICE, CAROL, DAVE]


# The dead


def test_a_killed_reader_frees_only_its_own_place(desk: Desk) -> None:
    desk.read(ALICE, ttl=1_000)
    desk.read(BOB, ttl=2_000)
    desk.attempt(CAROL)
    desk.pass_time(1_001)
    assert desk.attempt(CAROL)[:3:2] == [0, BOB]
    assert [each.owner for each in desk.state().holders] == [BOB]
    desk.pass_time(1_000)
    granted, _, _, expired = desk.attempt(CAROL)
    assert (granted, expired) == (1, BOB)


def test_the_next_taker_learns_who_expired(desk: Desk) -> None:
    desk.read(ALICE, ttl=1_000)
    desk.read(BOB)
    desk.pass_time(1_001)
    granted, _, _, expired = desk.read(CAROL)
    assert (granted, expired) == (1, ALICE)
    assert isinstance(desk.read(DAVE), bytes), "once"


def test_a_waiter_that_missed_a_hand_over_is_not_called_an_expired_holder(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.read(BOB)
    desk.release(ALICE)
    desk.pass_time(CLAIM + 1)
    granted, _, _, expired = desk.read(CAROL)
    assert (granted, expired) == (1, b"")


def test_a_late_release_before_any_check_still_releases(desk: Desk) -> None:
    desk.read(ALICE, ttl=1_000)
    desk.pass_time(1_001)
    assert desk.release(ALICE) == 1
    assert isinstance(desk.attempt(BOB), bytes), "nobody expired"


def test_a_reader_that_asks_after_its_time_gets_a_new_grant(desk: Desk) -> None:
    fence = fence_of(desk.read(ALICE, ttl=1_000))
    desk.pass_time(1_001)
    assert fence_of(desk.read(ALICE)) > fence
    assert sharing(desk) == [ALICE]


# What holds for every attempt


@pytest.mark.parametrize("situation", ["free", "mine", "shared", "held", "in line"])
def test_a_late_request_is_refused_and_changes_nothing(desk: Desk, situation: str) -> None:
    if situation in ("mine", "shared"):
        desk.read(ALICE if situation == "mine" else BOB)
    elif situation != "free":
        desk.attempt(BOB)
    if situation == "in line":
        desk.read(ALICE)
    before = desk.dump()
    assert desk.read(ALICE, not_after=desk.now_us() - 1)[0] == -1
    assert desk.dump() == before


@pytest.mark.parametrize("situation", ["free", "shared", "shared with a line", "held", "its own"])
def test_a_marker_refuses_the_reader_that_gave_up(desk: Desk, situation: str) -> None:
    if situation == "its own":
        desk.read(BOB)
    if situation.startswith("shared"):
        desk.read(ALICE)
    if situation == "shared with a line":
        desk.attempt(CAROL)
    if situation == "held":
        desk.attempt(ALICE)
    assert desk.withdraw(BOB, desk.now() + 2_000) == 1
    before = desk.dump()
    assert desk.read(BOB)[0] == -3
    assert desk.dump() == before
    desk.pass_time(2_001)
    assert desk.read(BOB)[0] != -3


def test_a_full_line_takes_no_reader(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.read(BOB, limit=1)
    before = desk.dump()
    refused, _, waiting = desk.read(CAROL, limit=1)
    assert (refused, waiting) == (-2, 1)
    assert desk.dump() == before


def test_when_the_line_is_gone_readers_are_quick_again(desk: Desk) -> None:
    """The flag costs time: the first script that finds an empty line clears it."""
    desk.read(ALICE)
    desk.attempt(BOB)
    desk.withdraw(BOB)
    assert desk.state().flagged
    assert fence_of(desk.read(CAROL))
    assert not desk.state().flagged
    assert isinstance(desk.read(DAVE), bytes)


def test_a_marker_keeps_the_flag_as_long_as_it_counts(desk: Desk) -> None:
    desk.read(ALICE, ttl=60_000)
    desk.withdraw(BOB, desk.now() + 2_000)
    desk.read(CAROL, ttl=60_000)
    assert desk.state().flagged
    desk.pass_time(2_001)
    desk.read(DAVE)
    assert not desk.state().flagged
