"""touch.lua: the heartbeat of a waiter. Never grants; that it gives no turn back is in test_handover.py."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import CLAIM, HEARTBEAT, SWEEP
from holdtight.stores.times import KEPT_MS
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, Inbox, fence_of, in_line, sharing

NOBODY_LISTENS = b"nobody listens"


def test_it_keeps_the_entry_and_the_line_alive(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, ttl=77, inbox=b"there", label="wer")
    before = desk.state().line[0]
    desk.pass_time(HEARTBEAT - 500)
    now = desk.now()
    assert desk.touch(BOB, INBOX) == 1
    after = desk.state().line[0]
    assert now + HEARTBEAT <= after.expiry <= desk.now() + HEARTBEAT
    assert (after.ttl, after.inbox, after.label) == (before.ttl, before.inbox, before.label)
    for key in (desk.keys.queue, desk.keys.waiters):
        assert HEARTBEAT - 1_000 < desk.time_left(key) <= HEARTBEAT


def test_a_place_that_is_kept_for_longer_outlives_the_heartbeats_of_others(desk: Desk) -> None:
    """Neither an attempt nor a heartbeat of another waiter shortens how long the line stays."""
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.attempt(CAROL)
    now = desk.now()
    assert desk.touch(BOB, kept=KEPT_MS) == 1
    assert now + KEPT_MS <= desk.state().line[0].expiry <= desk.now() + KEPT_MS
    desk.touch(CAROL)
    desk.attempt(DAVE)
    for key in (desk.keys.queue, desk.keys.waiters):
        assert HEARTBEAT < desk.time_left(key) <= KEPT_MS
    desk.pass_time(HEARTBEAT + 500)
    assert desk.attempt(BOB, limit=10)[4] == 1
    assert desk.state().line[0].owner == BOB


def test_it_keeps_the_place(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.attempt(CAROL)
    desk.touch(BOB)
    assert [entry.owner for entry in desk.state().line] == [BOB, CAROL]


def test_it_never_grants(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.attempt(BOB)
    desk.pass_time(2_001)
    before = desk.state()
    assert desk.touch(BOB) == 1
    assert desk.state().value == before.value


def test_an_unknown_waiter_is_rung_so_that_it_asks(desk: Desk, inbox: Inbox) -> None:
    assert desk.touch(BOB, INBOX) == 0
    assert inbox.bells() == [b"g" + BOB]
    assert desk.dump() == {}


def test_a_waiter_with_another_inbox_is_rung_so_that_it_names_the_new_one(desk: Desk, inbox: Inbox) -> None:
    """An attempt that came late, by a connection that is gone, has put its inbox in the place of the newer one."""
    desk.attempt(ALICE)
    for there in (INBOX, NOBODY_LISTENS):
        desk.attempt(BOB, inbox=there)
    assert desk.touch(BOB, INBOX) == 1
    assert inbox.bells() == [b"g" + BOB]
    desk.attempt(BOB, inbox=INBOX)
    assert desk.touch(BOB, INBOX) == 1
    assert inbox.bells() == []


def test_an_unknown_polling_waiter_is_told(desk: Desk) -> None:
    assert desk.touch(BOB, b"") == 0
    assert desk.dump() == {}


def test_after_flushall_every_waiter_is_rung(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    for who in (BOB, CAROL):
        desk.attempt(who, inbox=INBOX)
    desk.wire.call("FLUSHALL")
    assert [desk.touch(who, INBOX) for who in (BOB, CAROL)] == [0, 0]
    assert inbox.bells() == [b"g" + BOB, b"g" + CAROL]


def test_a_waiter_with_an_entry_but_no_line_any_more_is_rung(desk: Desk, inbox: Inbox) -> None:
    """Otherwise it would keep an entry alive for ever that nobody finds."""
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    desk.withdraw(CAROL, desk.now() + 60_000)
    desk.pass_time(HEARTBEAT + 1)
    assert not desk.wire.call("EXISTS", desk.keys.queue)
    assert desk.touch(BOB, INBOX) == 0
    assert inbox.bells() == [b"g" + BOB]


def test_it_does_not_shorten_what_else_the_hash_is_kept_for(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.withdraw(CAROL, desk.now() + 60_000)
    desk.touch(BOB)
    assert desk.time_left(desk.keys.waiters) > 50_000


# The clients that should have rung the waiter may be dead


def test_nobody_is_rung_while_the_holder_lives(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=NOBODY_LISTENS)
    desk.attempt(CAROL, inbox=INBOX)
    assert desk.touch(CAROL, INBOX) == 1
    assert inbox.bells() == []
    assert not desk.state().line[0].passed_over, "an unreachable waiter is noticed when the lock is free"


def test_a_waiter_for_a_holder_that_has_expired_is_rung(desk: Desk, inbox: Inbox) -> None:
    """However many dead waiters stand before it: its own attempt gets past them all, at once."""
    desk.attempt(ALICE, ttl=1_000)
    desk.crowd(10, inbox=NOBODY_LISTENS)
    desk.attempt(BOB, inbox=INBOX)
    desk.pass_time(1_001)
    before = desk.state()
    assert desk.touch(BOB, INBOX) == 1
    assert desk.state().value == before.value, "it never grants"
    assert inbox.bells() == [b"g" + BOB]
    assert fence_of(desk.attempt(BOB, inbox=INBOX))


def test_a_waiter_for_a_claim_that_was_missed_is_rung(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    desk.attempt(CAROL, inbox=INBOX)
    desk.release(ALICE)
    inbox.bells()
    desk.touch(CAROL, INBOX)
    assert inbox.bells() == []
    desk.pass_time(CLAIM + 1)
    desk.touch(CAROL, INBOX)
    assert inbox.bells() == [b"g" + CAROL]


@pytest.mark.parametrize("value", [None, b"t1q1794000000000000", b"hello"])
def test_a_waiter_for_a_free_lock_is_rung(desk: Desk, inbox: Inbox, value: bytes | None) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    if value is None:
        desk.wire.call("DEL", desk.keys.main)
    else:
        desk.wire.call("SET", desk.keys.main, value)
    assert desk.touch(BOB, INBOX) == 1
    assert inbox.bells() == [b"g" + BOB]


def test_a_main_key_of_another_type_is_left_for_the_attempt_to_report(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    desk.wire.call("DEL", desk.keys.main)
    desk.wire.call("RPUSH", desk.keys.main, "x")
    assert desk.touch(BOB, INBOX) == 1
    assert inbox.bells() == [b"g" + BOB]


@pytest.mark.parametrize("mode", ["r", "p"])
def test_a_waiter_for_sharers_is_rung_when_one_of_them_has_expired(desk: Desk, inbox: Inbox, mode: str) -> None:
    for who, ttl in ((ALICE, 1_000), (BOB, 30_000)):
        desk.share(who, mode=mode, permits=2, ttl=ttl)
    if mode == "r":
        desk.attempt(CAROL, inbox=INBOX)
    else:
        desk.permit(CAROL, of=2, inbox=INBOX)
    desk.touch(CAROL, INBOX)
    assert inbox.bells() == []
    desk.pass_time(1_001)
    desk.touch(CAROL, INBOX)
    assert inbox.bells() == [b"g" + CAROL]
    reply = desk.attempt(CAROL, inbox=INBOX) if mode == "r" else desk.permit(CAROL, of=2, inbox=INBOX)
    assert isinstance(reply, list)
    assert reply[0] == (0 if mode == "r" else 1)
    desk.touch(CAROL, INBOX) if mode == "r" else None
    assert inbox.bells() == [], "once: the attempt has cleared it away"


def test_a_reader_behind_a_writer_that_was_killed_is_rung_and_comes_in(desk: Desk, inbox: Inbox) -> None:
    """Well before the writer's place lapses. The writer keeps its place, passed over, if only its connection died."""
    desk.read(ALICE, ttl=3_600_000)
    desk.attempt(BOB, inbox=NOBODY_LISTENS)
    desk.read(CAROL, inbox=INBOX)
    desk.read(DAVE, inbox=INBOX)
    assert desk.touch(DAVE, INBOX) == 1
    assert inbox.bells() == [b"g" + DAVE]
    assert [entry.passed_over for entry in desk.state().line] == [True, False, False]
    assert fence_of(desk.read(DAVE, inbox=INBOX))
    assert inbox.bells() == [b"g" + CAROL], "which came before it"
    assert sharing(desk) == [ALICE, CAROL, DAVE]
    assert in_line(desk) == [BOB, CAROL]
    assert desk.attempt(BOB, inbox=INBOX)[4] == 1, "the first again"


def test_a_small_request_behind_a_large_one_that_was_killed_is_rung_and_comes_in(desk: Desk, inbox: Inbox) -> None:
    desk.permit(ALICE, of=3, ttl=3_600_000)
    desk.permit(BOB, 3, of=3, inbox=NOBODY_LISTENS)
    desk.permit(CAROL, of=3, inbox=INBOX)
    desk.touch(CAROL, INBOX)
    assert inbox.bells() == [b"g" + CAROL]
    assert fence_of(desk.permit(CAROL, of=3, inbox=INBOX))


@pytest.mark.parametrize("there", [INBOX, b""])
def test_a_writer_that_lives_or_polls_goes_on_keeping_readers_out(desk: Desk, inbox: Inbox, there: bytes) -> None:
    desk.read(ALICE)
    desk.attempt(BOB, inbox=there)
    desk.attempt(DAVE, inbox=NOBODY_LISTENS)
    desk.read(CAROL, inbox=INBOX)
    for _ in range(3):
        assert desk.touch(CAROL, INBOX) == 1
    assert inbox.bells() == []
    assert not any(entry.passed_over for entry in desk.state().line)


def test_a_writer_that_polled_and_died_is_noticed_when_its_place_has_lapsed(desk: Desk, inbox: Inbox) -> None:
    desk.read(ALICE, ttl=3_600_000)
    desk.attempt(BOB)
    desk.read(CAROL, inbox=INBOX)
    desk.pass_time(HEARTBEAT - 1_000)
    desk.touch(CAROL, INBOX)
    assert inbox.bells() == []
    desk.pass_time(1_001)
    desk.touch(CAROL, INBOX)
    assert inbox.bells() == [b"g" + CAROL]


def test_a_waiter_that_was_rung_for_nothing_is_not_rung_again(desk: Desk, inbox: Inbox) -> None:
    """The mark stays, so that the waiter is rung once and not again."""
    desk.read(ALICE)
    desk.attempt(BOB, inbox=NOBODY_LISTENS)
    desk.attempt(CAROL, inbox=INBOX)
    for _ in range(3):
        desk.touch(CAROL, INBOX)
    assert inbox.bells() == [b"g" + CAROL]


@pytest.mark.parametrize("number", [7, 8, 9, SWEEP - 1])
def test_one_touch_gets_past_many_dead_waiters(desk: Desk, inbox: Inbox, number: int) -> None:
    desk.read(ALICE)
    desk.crowd(number, inbox=NOBODY_LISTENS)
    desk.read(BOB, limit=1_000, inbox=INBOX)
    desk.touch(BOB, INBOX)
    assert [entry.passed_over for entry in desk.state().line] == [True] * number + [False]
    assert fence_of(desk.read(BOB, inbox=INBOX))


def test_without_the_right_to_count_listeners_no_waiter_is_taken_for_dead(desk: Desk, inbox: Inbox) -> None:
    desk.read(ALICE)
    desk.attempt(BOB, inbox=NOBODY_LISTENS)
    desk.read(CAROL, inbox=INBOX)
    desk.wire.call("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all", "-pubsub")
    try:
        desk.wire.call("AUTH", "narrow", "any")
        assert desk.touch(CAROL, INBOX) == 1
    finally:
        desk.wire.call("AUTH", "default", "")
        desk.wire.call("ACL", "DELUSER", "narrow")
    assert inbox.bells() == []
    assert not desk.state().line[0].passed_over


def test_a_polling_waiter_marks_no_other(desk: Desk) -> None:
    """It could not be rung; it finds out when it asks by itself."""
    desk.read(ALICE)
    desk.attempt(BOB, inbox=NOBODY_LISTENS)
    desk.read(CAROL)
    assert desk.touch(CAROL) == 1
    assert not desk.state().line[0].passed_over
