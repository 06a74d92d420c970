"""downgrade.lua: from writer to reader with no gap."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import CLAIM, HEARTBEAT, TAIL
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, Inbox, fence_of, in_line, owner, sharing

ERIN = owner("erin")
HOUR_US = 3_600_000_000


def test_the_writer_reads_under_the_same_owner_and_a_higher_fence(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE, ttl=60_000, label="alt"))
    done, text, _, expired = desk.downgrade(ALICE, ttl=20_000, label="neu")
    assert (done, expired) == (1, b"")
    assert int(text) > fence
    state = desk.state()
    assert state.value == b"s1-" + text
    (alice,) = state.holders
    assert (alice.owner, alice.mode, alice.fence, alice.label) == (ALICE, "r", int(text), b"neu")
    assert 19_000 < alice.expiry - desk.now() <= 20_000
    for key in (desk.keys.main, desk.keys.waiters, desk.keys.holders):
        assert 19_000 + TAIL < desk.time_left(key) <= 20_000 + TAIL


def test_others_may_read_then_and_nobody_may_write(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.downgrade(ALICE)
    assert fence_of(desk.read(BOB))
    assert desk.attempt(CAROL)[0] == 0
    assert desk.release(ALICE) == 1
    assert sharing(desk) == [BOB]


def test_readers_at_the_head_of_the_line_come_in_too(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    for who in (BOB, CAROL):
        desk.read(who, inbox=INBOX)
    desk.attempt(DAVE, inbox=INBOX)
    desk.read(ERIN, inbox=INBOX)
    desk.downgrade(ALICE)
    assert inbox.bells() == [b"g" + BOB, b"g" + CAROL, b"n" + DAVE + b"%d" % CLAIM]
    assert sharing(desk) == [ALICE, BOB, CAROL]
    assert in_line(desk) == [BOB, CAROL, DAVE, ERIN]


def test_a_writer_at_the_head_of_the_line_goes_on_waiting(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    desk.read(CAROL, inbox=INBOX)
    desk.downgrade(ALICE)
    assert inbox.bells() == []
    assert sharing(desk) == [ALICE]
    assert desk.read(DAVE)[0] == 0, "and still stops those behind it"
    desk.release(ALICE)
    assert inbox.bells()[0] == b"g" + BOB


@pytest.mark.parametrize("how", ["its place has lapsed", "it is passed over"])
def test_a_dead_writer_in_line_keeps_no_reader_out(desk: Desk, inbox: Inbox, how: str) -> None:
    desk.attempt(DAVE)
    desk.attempt(BOB, inbox=b"nobody listens")
    desk.release(DAVE)
    desk.attempt(ALICE)
    if how == "its place has lapsed":
        desk.attempt(BOB, inbox=INBOX)
        desk.pass_time(HEARTBEAT - 1_000)
        desk.read(CAROL, inbox=INBOX)
        desk.pass_time(1_001)
    desk.read(CAROL, inbox=INBOX)
    desk.downgrade(ALICE)
    assert inbox.bells() == [b"g" + CAROL]
    assert sharing(desk) == [ALICE, CAROL]
    assert in_line(desk) == ([CAROL] if how == "its place has lapsed" else [BOB, CAROL])


@pytest.mark.parametrize("queue", [False, True])
def test_asking_again_after_a_lost_reply_brings_the_same_grant(desk: Desk, queue: bool) -> None:
    desk.attempt(ALICE)
    if queue:
        desk.read(BOB)
    first = desk.downgrade(ALICE, ttl=1_000)
    desk.pass_time(900)
    assert desk.downgrade(ALICE, ttl=1_000)[:2] == first[:2]
    alice = next(each for each in desk.state().holders if each.owner == ALICE)
    assert alice.expiry > desk.now() + 500


@pytest.mark.parametrize(
    "situation", ["nothing", "tombstone", "lapsed", "another's", "readers", "permits", "my lapsed"]
)
def test_an_owner_that_does_not_hold_it_alone_cannot(desk: Desk, situation: str) -> None:
    if situation in ("tombstone", "lapsed", "another's"):
        desk.attempt(ALICE if situation != "another's" else BOB, ttl=1_000)
    if situation == "tombstone":
        desk.release(ALICE)
    if situation == "readers":
        desk.read(BOB)
    if situation == "permits":
        desk.permit(ALICE)
    if situation == "my lapsed":
        desk.read(ALICE, ttl=1_000)
        desk.read(BOB)
    if situation in ("lapsed", "my lapsed"):
        desk.pass_time(1_001)
    before = desk.dump()
    no, _, holder = desk.downgrade(ALICE)
    assert (no, holder) == (0, BOB if situation == "another's" else b"")
    assert desk.dump() == before


def test_a_late_one_is_refused(desk: Desk) -> None:
    desk.attempt(ALICE)
    before = desk.dump()
    assert desk.downgrade(ALICE, not_after=desk.now_us() - 1)[0] == -1
    assert desk.dump() == before


def test_a_claim_that_was_not_confirmed_can_be_downgraded_and_leaves_the_line(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.release(ALICE)
    assert desk.downgrade(BOB)[0] == 1
    assert (sharing(desk), in_line(desk)) == ([BOB], [])


def test_the_fence_rises_though_the_clock_was_set_back(desk: Desk) -> None:
    ahead = desk.now_us() + HOUR_US
    desk.put_held(ALICE, ahead)
    assert desk.downgrade(ALICE, ttl=1_000)[1] == b"%d" % (ahead + 1)
    desk.pass_time(1_001 + TAIL)
    assert desk.state().value == b""
    assert fence_of(desk.attempt(BOB)) > ahead + 1


def test_after_it_a_renewal_is_that_of_a_reader(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.downgrade(ALICE, ttl=1_000)
    desk.read(BOB, ttl=1_000)
    assert desk.renew(ALICE, ttl=60_000) == 1
    desk.pass_time(1_001)
    assert sharing(desk) == [ALICE]


@pytest.mark.parametrize("ordinal", ["", "3"])
def test_with_a_marker_late_requests_of_the_writer_are_refused(desk: Desk, ordinal: str) -> None:
    """An attempt would put a writer in line that no client waits for, and readers would wait for it."""
    desk.attempt(ALICE)
    desk.downgrade(ALICE, marker=f"{desk.now() + 2_000}{ordinal}")
    before = desk.dump()
    assert desk.attempt(ALICE)[0] == -3
    if ordinal:
        assert desk.renew(ALICE)[0] == desk.renew(ALICE, ttl=1_000, ordinal=3)[0] == -1
    assert in_line(desk) == []
    assert desk.dump() == before
    assert desk.state().flagged
    assert desk.renew(ALICE, ordinal=4 if ordinal else 0) == 1
    assert fence_of(desk.read(BOB, ttl=1_000))


def test_a_repeated_downgrade_takes_no_time_away(desk: Desk) -> None:
    desk.attempt(ALICE)
    fence = fence_of(desk.downgrade(ALICE, ttl=20_000))
    desk.renew(ALICE, ttl=60_000)
    assert fence_of(desk.downgrade(ALICE, ttl=20_000)) == fence
    (alice,) = desk.state().holders
    assert alice.expiry > desk.now() + 59_000
