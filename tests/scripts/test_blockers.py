"""blockers.lua: the owners that block a waiter, as far as that is sure. retract.lua: only the owner's own note."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import CLAIM, HEARTBEAT
from holdtight.stores.redis.wait_records import RETRACT
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, Desk, Inbox
from tests.support.raw import ServerSaid


def test_the_holder_keeps_everybody_in_line_from_the_name(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.attempt(CAROL)
    before = desk.dump()
    assert [desk.blockers(who) for who in (BOB, CAROL)] == [[ALICE], [ALICE]]
    assert desk.dump() == before


def test_an_owner_that_is_not_in_line_has_no_blockers(desk: Desk) -> None:
    assert desk.blockers(BOB) == []
    desk.attempt(ALICE)
    assert [desk.blockers(who) for who in (ALICE, BOB)] == [[], []]
    desk.attempt(BOB)
    desk.withdraw(BOB)
    assert desk.blockers(BOB) == []


def test_a_waiter_without_a_line_is_none(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.wire.call("DEL", desk.keys.queue)
    assert desk.blockers(BOB) == []


def test_a_waiter_that_died_is_none(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.pass_time(HEARTBEAT - 100)
    desk.attempt(CAROL)
    desk.pass_time(2_001)
    assert desk.blockers(BOB) == []
    assert desk.blockers(CAROL) == [ALICE]


def test_a_waiter_where_nobody_listens_any_more_is_none(desk: Desk, inbox: Inbox) -> None:
    """Its process was killed: the entry stays for a while, the connection does not."""
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    assert desk.blockers(BOB) == [ALICE]
    inbox.unsubscribe(INBOX)
    assert desk.blockers(BOB) == []


def test_a_polling_waiter_counts_as_long_as_its_entry_lives(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=b"")
    assert desk.blockers(BOB) == [ALICE]


def test_a_passed_over_waiter_waits_all_the_same(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    desk.release(ALICE)
    desk.pass_time(CLAIM + 1)
    desk.attempt(CAROL)
    assert desk.state().line[0].passed_over
    assert desk.blockers(BOB) == [CAROL]


def test_a_waiter_that_was_handed_the_name_and_has_not_confirmed_blocks_no_other(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.attempt(CAROL)
    desk.release(ALICE)
    assert desk.state().owner == BOB
    assert [desk.blockers(who) for who in (BOB, CAROL)] == [[], []]
    desk.attempt(BOB)
    assert desk.blockers(CAROL) == [BOB]


def test_an_expired_holder_keeps_nobody(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.attempt(BOB)
    desk.pass_time(2_001)
    assert desk.blockers(BOB) == []


@pytest.mark.parametrize("value", [b"", b"hello", b"t1-1794000000000000", b"s1q1794000000000000", b"\xff" * 50])
def test_what_is_no_exclusive_lock_keeps_nobody(desk: Desk, value: bytes) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.wire.call("SET", desk.keys.main, value, "KEEPTTL")
    assert desk.blockers(BOB) == []


def test_without_the_right_to_count_listeners_a_waiter_counts_as_there(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, inbox=b"nobody listens here")
    assert desk.blockers(BOB) == []
    desk.wire.call("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all", "-pubsub")
    try:
        desk.wire.call("AUTH", "narrow", "any")
        assert desk.blockers(BOB) == [ALICE]
    finally:
        desk.wire.call("AUTH", "default", "")
        desk.wire.call("ACL", "DELUSER", "narrow")


def test_keys_of_another_type_are_an_error(desk: Desk) -> None:
    desk.wire.call("RPUSH", desk.keys.main, "x")
    assert isinstance(desk.blockers(BOB), ServerSaid)


def retract(desk: Desk, waiter: bytes) -> object:
    return desk.wire.call("EVAL", RETRACT.body, 1, "ht:waits:someone", waiter)


def test_what_one_has_published_is_taken_back(desk: Desk) -> None:
    desk.wire.call("SET", "ht:waits:someone", BOB + b"the rest")
    assert retract(desk, BOB) == 1
    assert desk.dump() == {}
    assert retract(desk, BOB) == 0


def test_what_a_withdrawal_that_came_late_has_removed_is_published_again(desk: Desk) -> None:
    for _ in range(2):
        desk.wire.call("SET", "ht:waits:someone", BOB + b"the rest")
        assert retract(desk, BOB) == 1


def test_what_a_later_wait_has_published_stays(desk: Desk) -> None:
    desk.wire.call("SET", "ht:waits:someone", CAROL + b"the rest")
    before = desk.dump()
    assert retract(desk, BOB) == 0
    assert desk.dump() == before


# Readers and permits


def test_every_reader_keeps_a_writer_out(desk: Desk) -> None:
    desk.read(ALICE)
    desk.read(BOB)
    desk.attempt(CAROL)
    assert sorted(desk.blockers(CAROL)) == sorted([ALICE, BOB])
    desk.release(ALICE)
    assert desk.blockers(CAROL) == [BOB]


def test_readers_keep_a_reader_out_only_behind_a_live_writer(desk: Desk, inbox: Inbox) -> None:
    desk.read(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    desk.read(CAROL, inbox=INBOX)
    assert desk.blockers(CAROL) == [ALICE]
    desk.pass_time(HEARTBEAT - 1_000)
    desk.touch(CAROL, INBOX)
    desk.pass_time(1_001)
    assert desk.blockers(BOB) == [], "it has died"
    assert desk.blockers(CAROL) == [], "nothing blocks it: it only has to ask"


def test_a_writer_keeps_readers_out(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.read(BOB)
    assert desk.blockers(BOB) == [ALICE]


def test_a_waiter_for_permits_has_no_single_blocker(desk: Desk) -> None:
    desk.permit(ALICE, 2, of=2)
    desk.permit(BOB, 1, of=2)
    assert desk.blockers(BOB) == []


def test_readers_whose_main_key_was_lost_keep_nobody(desk: Desk) -> None:
    """Their next renewal finds it gone, and ends the wait: that is no deadlock."""
    desk.read(ALICE)
    desk.attempt(BOB)
    desk.wire.call("DEL", desk.keys.main)
    assert desk.blockers(BOB) == []
    assert desk.renew(ALICE) == [0, b""]


@pytest.mark.parametrize("mode", ["x", "r"])
def test_what_is_left_in_the_hash_of_a_line_that_is_gone_hides_no_holder(desk: Desk, mode: str) -> None:
    desk.attempt(CAROL)
    desk.share(ALICE, mode="r") if mode == "r" else desk.attempt(ALICE)
    desk.release(CAROL)
    entry = desk.wire.call("HGET", desk.keys.waiters, ALICE)
    desk.share(ALICE, mode="r") if mode == "r" else desk.attempt(ALICE)
    desk.wire.call("HSET", desk.keys.waiters, ALICE, entry)
    desk.attempt(BOB)
    assert desk.blockers(BOB) == [ALICE]
