"""What a vote leaves behind says whether the guard had let it pass, and whether a waiter is to be rung."""

from __future__ import annotations

import pytest

from holdtight.stores.redis import script
from tests.scripts.nodes import MAIN, NAMES, SECOND, STAMP, WATCHERS, Node
from tests.scripts.workbench import ALICE, BOB, CAROL, FAR, Inbox

RUN = b"a" * 40
OTHER_RUN = b"b" * 40
GUARDED = -4
INBOX = b"ht:inbox:test"


@pytest.fixture
def blessed(node: Node) -> Node:
    node.run_id = RUN
    node.bless(RUN)
    return node


def pair(node: Node, who: bytes = ALICE, **options: object) -> None:
    assert node.vote(who, **options)[0] == 1  # type: ignore[arg-type]
    assert node.resign(who) == 1


def lose_the_stamp(node: Node) -> None:
    """So that a vote shows whether it was read."""
    node.wire.call("DEL", STAMP)


def test_on_top_of_a_vote_that_passed_the_guard_no_stamp_is_read_for_a_client_that_saw_it_pass(blessed: Node) -> None:
    pair(blessed)
    lose_the_stamp(blessed)
    pair(blessed, BOB, vouching=True)
    pair(blessed, CAROL, vouching=True)
    assert blessed.wire.call("EXISTS", STAMP) == 0
    assert blessed.vote(ALICE)[0] == GUARDED, "a client that has not seen it pass needs the stamp"


def test_a_client_that_saw_it_pass_is_refused_on_a_node_that_has_lost_everything(blessed: Node) -> None:
    pair(blessed)
    blessed.wire.call("FLUSHALL")
    assert blessed.vote(BOB, vouching=True)[0] == GUARDED
    assert blessed.wire.call("EXISTS", MAIN) == 0
    assert blessed.vote(BOB, vouching=True)[0] == GUARDED, "a vote that was refused is nothing to vote on top of"


def test_what_an_old_snapshot_brings_back_does_not_stand_for_the_guard_of_a_later_run(blessed: Node) -> None:
    """Its tombstones are of votes that had passed. A client with a new connection has seen nothing of this run."""
    pair(blessed)
    assert blessed.vote(BOB, run=OTHER_RUN)[0] == GUARDED


@pytest.mark.parametrize("flushed", [False, True])
def test_what_a_vote_without_the_guard_leaves_is_nothing_to_vote_on_top_of(blessed: Node, flushed: bool) -> None:
    pair(blessed)
    if flushed:
        blessed.wire.call("FLUSHALL")
    pair(blessed, BOB, run=b"")
    lose_the_stamp(blessed)
    assert blessed.vote(CAROL, vouching=True)[0] == GUARDED


def test_what_a_reader_leaves_is_nothing_to_vote_on_top_of(blessed: Node) -> None:
    pair(blessed)
    pair(blessed, BOB, mode="r")
    lose_the_stamp(blessed)
    assert blessed.vote(CAROL, vouching=True)[0] == GUARDED


def test_a_vote_is_not_cast_on_top_of_the_remains_of_a_lock_on_one_server(blessed: Node) -> None:
    pair(blessed)
    attempt = script.ATTEMPT
    names = dict(zip(("main", "queue", "waiters", "holders"), NAMES, strict=True))
    values = {"px": 20_000, "ttl": 10_000, "limit": 0, "not_after": FAR, "owner": BOB}
    assert set(attempt.keys) <= set(names)
    blessed.run(attempt, tuple(names[key] for key in attempt.keys), *(values.get(word, "") for word in attempt.argv))
    blessed.run(script.RELEASE, tuple(names[key] for key in script.RELEASE.keys), BOB)
    assert blessed.wire.call("GET", MAIN)[:3] == b"t1-"
    lose_the_stamp(blessed)
    assert blessed.vote(CAROL, vouching=True)[0] == GUARDED


def test_what_is_withdrawn_is_nothing_to_vote_on_top_of(blessed: Node) -> None:
    pair(blessed)
    assert blessed.vote(BOB, vouching=True)[0] == 1
    blessed.withdraw(BOB)
    lose_the_stamp(blessed)
    assert blessed.vote(CAROL, vouching=True)[0] == GUARDED


def test_a_vouching_client_needs_the_stamp_of_that_very_run_where_nothing_is_left(blessed: Node) -> None:
    assert blessed.vote(ALICE, vouching=True)[0] == 1
    blessed.resign(ALICE)
    blessed.wire.call("DEL", MAIN)
    assert blessed.vote(ALICE, run=OTHER_RUN, vouching=True)[0] == GUARDED


def test_a_fence_that_is_ahead_of_the_clock_is_remembered_until_the_clock_has_passed_it(blessed: Node) -> None:
    pair(blessed)
    blessed.vote(ALICE, vouching=True)
    assert blessed.agree(ALICE, blessed.now() + 5 * SECOND) == 1
    blessed.resign(ALICE)
    assert 14_000 < blessed.left() <= 15_000


# Ringing


@pytest.mark.parametrize("vouching", [False, True])
def test_a_denied_waiter_is_rung_however_quiet_it_was_before(blessed: Node, vouching: bool) -> None:
    inbox = Inbox(blessed.server, INBOX)
    for _ in range(3):
        pair(blessed, vouching=vouching)
    blessed.vote(ALICE, vouching=vouching)
    left = blessed.left()
    assert blessed.vote(BOB, vouching=vouching, inbox=INBOX)[0] == 0
    assert left - 1000 < blessed.left() <= left, "the holder has as much time as before"
    blessed.resign(ALICE)
    assert [each[1:] for each in inbox.bells()] == [BOB]
    inbox.close()


def test_waiters_that_were_not_rung_are_rung_by_the_next_release_and_the_one_after(blessed: Node) -> None:
    inbox = Inbox(blessed.server, INBOX)
    pair(blessed)
    blessed.vote(ALICE, vouching=True)
    waiters = [bytes([65 + number]) * 24 for number in range(7)]
    for each in waiters:
        assert blessed.vote(each, vouching=True, inbox=INBOX)[0] == 0
    blessed.resign(ALICE)
    pair(blessed, BOB, vouching=True)
    pair(blessed, CAROL, vouching=True)
    assert {each[1:] for each in inbox.bells()} == set(waiters)
    assert blessed.wire.call("EXISTS", WATCHERS) == 0
    pair(blessed, vouching=True)
    assert blessed.wire.call("GET", MAIN)[:3] == b"t1h", "quiet again"
    inbox.close()


def test_a_fence_that_is_agreed_on_and_a_renewal_do_not_hide_waiters_to_be_rung(blessed: Node) -> None:
    inbox = Inbox(blessed.server, INBOX)
    pair(blessed)
    fence = int(blessed.vote(ALICE, vouching=True)[1])
    assert blessed.vote(BOB, vouching=True, inbox=INBOX)[0] == 0
    assert blessed.agree(ALICE, fence + 1) == 1
    assert blessed.renew(ALICE, fence + 1)[0] == 1
    blessed.resign(ALICE)
    assert [each[1:] for each in inbox.bells()] == [BOB]
    inbox.close()
