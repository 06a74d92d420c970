"""touch.lua: the heartbeat of a waiter. Never grants; that it gives no turn back is in test_handover.py."""

from __future__ import annotations

from holdtight.memory.engine import HEARTBEAT
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, Desk, Inbox


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


def test_it_keeps_the_place(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.attempt(CAROL)
    desk.touch(BOB)
    assert [entry.owner for entry in desk.state().line] == [BOB, CAROL]


def test_it_never_grants(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=100)
    desk.attempt(BOB)
    desk.pass_time(101)
    before = desk.state()
    assert desk.touch(BOB) == 1
    assert desk.state().value == before.value


def test_who_is_not_known_is_rung_to_come_and_look(desk: Desk, inbox: Inbox) -> None:
    assert desk.touch(BOB, INBOX) == 0
    assert inbox.bells() == [b"g" + BOB]
    assert desk.dump() == {}


def test_who_polls_and_is_not_known_is_told(desk: Desk) -> None:
    assert desk.touch(BOB, b"") == 0
    assert desk.dump() == {}


def test_after_flushall_every_waiter_is_rung(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    for who in (BOB, CAROL):
        desk.attempt(who, inbox=INBOX)
    desk.wire.call("FLUSHALL")
    assert [desk.touch(who, INBOX) for who in (BOB, CAROL)] == [0, 0]
    assert inbox.bells() == [b"g" + BOB, b"g" + CAROL]


def test_who_has_an_entry_but_no_line_any_more_is_rung(desk: Desk, inbox: Inbox) -> None:
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
