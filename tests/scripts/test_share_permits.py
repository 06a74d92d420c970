"""attempt_shared.lua for semaphores: never more permits in use than a request allows, and no waiter is overtaken."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import CLAIM, HEARTBEAT, TAIL
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, Inbox, fence_of, in_line, owner, sharing

ERIN, FRANK = owner("erin"), owner("frank")


def out(desk: Desk) -> int:
    """The permits in use."""
    now = desk.now()
    return sum(holder.n for holder in desk.state().holders if holder.expiry > now)


def calls(desk: Desk) -> dict[str, int]:
    """The commands that scripts run while FRANK takes and gives back a permit."""
    desk.wire.call("CONFIG", "RESETSTAT")
    assert fence_of(desk.permit(FRANK, of=100_000))
    assert desk.release(FRANK) == 1
    stats = desk.server.info("commandstats")
    return {name.partition("_")[2]: int(text.split(",")[0][6:]) for name, text in stats.items()}


# As many as allowed


def test_a_free_name_is_granted_with_the_clock_as_its_fence(desk: Desk) -> None:
    reply = desk.permit(ALICE, 1, of=3, label="erster")
    assert isinstance(reply, bytes)
    state = desk.state()
    assert state.value == b"p1-" + reply
    (alice,) = state.holders
    assert (alice.owner, alice.mode, alice.n, alice.fence, alice.label) == (ALICE, "p", 1, int(reply), b"erster")
    for key in (desk.keys.main, desk.keys.waiters, desk.keys.holders):
        assert 29_000 + TAIL < desk.time_left(key) <= 30_000 + TAIL


def test_permits_are_given_until_the_limit_is_reached(desk: Desk) -> None:
    fences = [fence_of(desk.permit(who, of=3)) for who in (ALICE, BOB, CAROL)]
    assert fences == sorted(set(fences))
    no, _, holder, _, position, _ = desk.permit(DAVE, of=3)
    assert (no, holder, position) == (0, ALICE, 1)
    assert sharing(desk) == [ALICE, BOB, CAROL]


def test_a_waiter_is_told_of_the_holder_that_expires_first(desk: Desk) -> None:
    desk.permit(ALICE, ttl=20_000)
    desk.permit(BOB, ttl=10_000)
    _, _, holder, left, _, look = desk.permit(CAROL)
    assert holder == BOB
    assert 9_000 < left == look <= 10_000


def test_a_caller_that_only_asks_leaves_no_trace(desk: Desk) -> None:
    desk.permit(ALICE, of=1)
    before = desk.dump()
    assert desk.permit(BOB, of=1, limit=0)[:3:2] == [0, ALICE]
    assert desk.dump() == before


def test_a_permit_that_is_given_back_goes_to_the_first_in_line(desk: Desk, inbox: Inbox) -> None:
    for who in (ALICE, BOB):
        desk.permit(who)
    for who in (CAROL, DAVE):
        desk.permit(who, inbox=INBOX)
    desk.release(BOB)
    assert inbox.bells() == [b"g" + CAROL, b"n" + DAVE + b"%d" % CLAIM]
    assert sharing(desk) == [ALICE, CAROL]
    assert desk.permit(CAROL, inbox=INBOX)[0] == 1
    assert in_line(desk) == [DAVE]


def test_asking_again_after_a_lost_reply_brings_the_same_grant_though_all_are_out(desk: Desk) -> None:
    fence = fence_of(desk.permit(ALICE, 2, of=2, ttl=1_000))
    desk.pass_time(900)
    assert desk.permit(ALICE, 2, of=2)[:2] == [1, b"%d" % fence]
    assert out(desk) == 2
    desk.pass_time(200)
    assert out(desk) == 2, "its time has been set anew"


def test_the_last_to_go_leaves_nothing_but_a_tombstone(desk: Desk) -> None:
    for who in (ALICE, BOB):
        desk.permit(who, 2, of=4)
    for who in (ALICE, BOB):
        desk.release(who)
    assert list(desk.dump()) == [desk.keys.main]
    assert desk.state().value[:3] == b"t1-"


# Several at once


def test_several_permits_count_as_many(desk: Desk) -> None:
    assert fence_of(desk.permit(ALICE, 3, of=5))
    assert desk.permit(BOB, 3, of=5, limit=0)[0] == 0
    assert fence_of(desk.permit(CAROL, 2, of=5))
    assert desk.permit(DAVE, 1, of=5, limit=0)[0] == 0
    assert out(desk) == 5
    desk.release(ALICE)
    assert fence_of(desk.permit(BOB, 3, of=5))


@pytest.mark.parametrize("way", ["at once", "beside others", "after a line", "given"])
def test_several_permits_count_as_many_however_they_were_had(desk: Desk, way: str) -> None:
    if way == "beside others":
        desk.permit(ALICE, of=4)
    if way == "after a line":
        desk.permit(ALICE, of=4)
        desk.withdraw(DAVE, desk.now() + 2_000)
    if way == "given":
        desk.permit(ALICE, 1, of=1)
        desk.permit(BOB, 3, of=4, inbox=b"nobody listens")
        desk.permit(BOB, 3, of=3)
        desk.release(ALICE)
    assert fence_of(desk.permit(BOB, 3, of=4))
    assert desk.state().value.endswith(b"+")
    assert desk.permit(CAROL, 2, of=4, limit=0)[0] == 0


@pytest.mark.parametrize("in_use", [False, True])
def test_more_than_there_are_is_never_given(desk: Desk, in_use: bool) -> None:
    if in_use:
        desk.permit(ALICE)
    assert desk.permit(BOB, 3, of=2)[0] == 0
    desk.release(ALICE)
    assert desk.permit(BOB, 3, of=2)[0] == 0
    assert sharing(desk) == []


def test_a_large_request_is_not_starved_by_small_ones(desk: Desk, inbox: Inbox) -> None:
    for who in (ALICE, BOB):
        desk.permit(who, of=3)
    assert desk.permit(CAROL, 3, of=3, inbox=INBOX)[4] == 1
    for who in (DAVE, ERIN):
        assert desk.permit(who, of=3, inbox=INBOX)[0] == 0, "one is left, but CAROL comes first"
    assert desk.permit(FRANK, of=3, limit=0)[0] == 0
    desk.release(ALICE)
    assert inbox.bells() == []
    desk.release(BOB)
    assert inbox.bells() == [b"g" + CAROL, b"n" + DAVE + b"%d" % CLAIM]
    desk.permit(CAROL, 3, of=3, inbox=INBOX)
    desk.release(CAROL)
    assert inbox.bells() == [b"g" + DAVE, b"g" + ERIN]


def test_a_small_request_behind_a_large_one_looks_again_after_a_heartbeat(desk: Desk) -> None:
    desk.permit(ALICE, of=3, ttl=3_600_000)
    _, _, _, left, _, look = desk.permit(BOB, 3, of=3)
    assert look == left > 3_599_000, "which waits for permits"
    assert desk.permit(CAROL, of=3)[5] == HEARTBEAT + 250, "this one only for BOB, which may die"


def test_what_comes_free_at_once_goes_to_as_many_as_it_serves(desk: Desk, inbox: Inbox) -> None:
    desk.permit(ALICE, 4, of=4)
    for who, n in ((BOB, 1), (CAROL, 2), (DAVE, 2), (ERIN, 1)):
        desk.permit(who, n, of=4, inbox=INBOX)
    desk.release(ALICE)
    assert inbox.bells() == [b"g" + BOB, b"g" + CAROL, b"n" + DAVE + b"%d" % CLAIM]
    assert out(desk) == 3


def test_a_request_that_gives_up_lets_smaller_ones_behind_it_in(desk: Desk, inbox: Inbox) -> None:
    desk.permit(ALICE, of=3)
    desk.permit(BOB, 3, of=3, inbox=INBOX)
    for who in (CAROL, DAVE, ERIN):
        desk.permit(who, of=3, inbox=INBOX)
    assert desk.withdraw(BOB) == 1
    assert inbox.bells() == [b"g" + CAROL, b"g" + DAVE, b"n" + ERIN + b"%d" % CLAIM]


def test_a_waiter_that_finds_permits_free_lets_those_behind_it_in_too(desk: Desk, inbox: Inbox) -> None:
    desk.permit(ALICE, 2, of=2, ttl=1_000)
    for who in (BOB, CAROL, DAVE):
        desk.permit(who, of=2, inbox=INBOX)
    desk.pass_time(1_001)
    granted, _, _, expired = desk.permit(BOB, of=2)
    assert (granted, expired) == (1, ALICE)
    assert sharing(desk) == [BOB, CAROL]
    assert inbox.bells() == [b"g" + CAROL, b"n" + DAVE + b"%d" % CLAIM]


def test_the_holders_are_read_only_while_one_of_them_has_several(desk: Desk) -> None:
    desk.permit(ALICE, 1, of=1_000)
    desk.crowd_in(500, mode="p")
    plain = calls(desk)
    assert "hmget" not in plain
    desk.permit(BOB, 2, of=1_000)
    assert desk.state().value.endswith(b"+")
    assert calls(desk)["hmget"] >= 5
    desk.release(BOB)
    calls(desk)
    assert not desk.state().value.endswith(b"+"), "a script that counts and finds one each says so"
    assert calls(desk) == plain


def test_a_thousand_permits_out_cost_no_more_calls_than_two(desk: Desk) -> None:
    desk.permit(ALICE, of=100_000)
    few = calls(desk)
    desk.crowd_in(1_000, mode="p")
    assert calls(desk) == few


# Limits that change


def test_a_lower_limit_counts_for_new_grants_only(desk: Desk) -> None:
    for who in (ALICE, BOB, CAROL):
        desk.permit(who, of=3)
    assert desk.permit(DAVE, of=1)[0] == 0
    assert [desk.renew(who) for who in (ALICE, BOB, CAROL)] == [1, 1, 1]
    assert desk.permit(CAROL, of=1)[0] == 1, "a holder keeps its permit"
    for who in (ALICE, BOB):
        desk.release(who)
        assert DAVE not in sharing(desk)
    desk.release(CAROL)
    assert sharing(desk) == [DAVE]


def test_a_higher_limit_counts_at_once_unless_a_waiter_asked_with_the_old_one(desk: Desk) -> None:
    desk.permit(ALICE, of=1)
    assert fence_of(desk.permit(BOB, of=2))
    assert desk.permit(CAROL, of=2)[0] == 0
    assert desk.permit(DAVE, of=3)[0] == 0, "nobody is overtaken"
    assert fence_of(desk.permit(CAROL, of=4)), "a repeated request may bring another limit"
    assert sharing(desk)[:3] == [ALICE, BOB, CAROL]


def test_each_in_line_waits_with_the_limit_it_brought(desk: Desk, inbox: Inbox) -> None:
    for who in (ALICE, BOB, CAROL):
        desk.permit(who, of=3)
    desk.permit(DAVE, of=2, inbox=INBOX)
    desk.permit(ERIN, of=3, inbox=INBOX)
    desk.release(ALICE)
    assert inbox.bells() == []
    desk.release(BOB)
    assert inbox.bells() == [b"g" + DAVE, b"g" + ERIN]
    assert out(desk) == 3


# The dead


def test_permits_of_a_killed_holder_come_back_after_its_ttl_and_only_those(desk: Desk) -> None:
    desk.permit(ALICE, 2, of=4, ttl=1_000)
    desk.permit(BOB, 2, of=4)
    assert desk.permit(CAROL, 2, of=4)[0] == 0
    desk.pass_time(1_001)
    granted, _, _, expired = desk.permit(CAROL, 2, of=4)
    assert (granted, expired) == (1, ALICE)
    assert sharing(desk) == [BOB, CAROL]
    assert desk.permit(DAVE, of=4)[0] == 0


def test_a_claim_that_is_missed_gives_its_permits_back(desk: Desk, inbox: Inbox) -> None:
    desk.permit(ALICE, of=1)
    desk.permit(BOB, of=1)
    desk.permit(CAROL, of=1, inbox=INBOX)
    desk.release(ALICE)
    assert desk.permit(CAROL, of=1, inbox=INBOX)[:3:2] == [0, BOB]
    desk.pass_time(CLAIM + 1)
    granted, _, _, expired = desk.permit(CAROL, of=1)
    assert (granted, expired) == (1, b"")
    assert in_line(desk) == [BOB]


@pytest.mark.parametrize("verb", ["release", "withdraw"])
def test_a_waiter_that_was_given_a_permit_and_does_not_want_it_passes_it_on(
    desk: Desk, inbox: Inbox, verb: str
) -> None:
    desk.permit(ALICE, of=1)
    for who in (BOB, CAROL):
        desk.permit(who, of=1, inbox=INBOX)
    desk.release(ALICE)
    inbox.bells()
    assert getattr(desk, verb)(BOB) == 1
    assert inbox.bells() == [b"g" + CAROL]
    assert (sharing(desk), in_line(desk)) == ([CAROL], [CAROL])


def test_the_longest_label_and_the_largest_numbers_fit(desk: Desk) -> None:
    largest = 999_999_999
    desk.permit(ALICE, largest, of=largest, label="ü" * 64)
    desk.permit(BOB, largest, of=largest, label="ü" * 64, inbox=b"i" * 99)
    (alice,), (bob,) = desk.state().holders, desk.state().line
    assert (alice.n, alice.label) == (largest, "ü".encode() * 64)
    assert (bob.n, bob.permits, bob.label, bob.inbox) == (largest, largest, "ü".encode() * 64, b"i" * 99)
    desk.touch(BOB)
    assert desk.state().line[0].label == bob.label
