"""A server that is out of memory and evicts nothing: it grants nothing new, and no lease suffers from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdtight.stores.memory.engine import HEARTBEAT, TAIL
from holdtight.stores.times import FENCES
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, HANDED_ON, Desk, Inbox, fence_of
from tests.support.raw import ServerSaid


@contextmanager
def out_of_memory(desk: Desk) -> Iterator[None]:
    desk.wire.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    desk.wire.call("CONFIG", "SET", "maxmemory", "1")
    try:
        yield
    finally:
        desk.wire.call("CONFIG", "SET", "maxmemory", "0")


def is_refused(reply: object) -> bool:
    return isinstance(reply, ServerSaid) and "OOM" in str(reply)


@pytest.mark.parametrize("situation", ["nothing there", "tombstone", "lapsed", "held", "flagged"])
def test_an_attempt_fails_and_changes_nothing(desk: Desk, situation: str) -> None:
    if situation != "nothing there":
        desk.attempt(ALICE, ttl=1_000)
    if situation == "tombstone":
        desk.release(ALICE)
    if situation == "lapsed":
        desk.pass_time(1_001)
    if situation == "flagged":
        desk.withdraw(CAROL, desk.now() + 2_000)
        desk.release(ALICE)
    before = desk.dump()
    with out_of_memory(desk):
        assert is_refused(desk.attempt(BOB))
        assert desk.dump() == before


@pytest.mark.parametrize("queue", [False, True])
def test_a_holder_can_renew(desk: Desk, queue: bool) -> None:
    desk.attempt(ALICE, ttl=1_000)
    if queue:
        desk.attempt(BOB)
    with out_of_memory(desk):
        assert desk.renew(ALICE, ttl=60_000) == 1
    assert desk.time_left(desk.keys.main) > 59_000


def test_a_holder_can_renew_with_a_fence_ahead_of_the_clock_too(desk: Desk) -> None:
    fence = desk.now_us() + 3_600_000_000
    desk.put_held(ALICE, fence)
    with out_of_memory(desk):
        assert desk.renew(ALICE, ttl=1_000) == 1
        assert fence_of(desk.attempt(ALICE, ttl=1_000)) == fence
    assert desk.state().floor == fence


def test_a_waiter_that_was_given_it_can_confirm(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.release(ALICE)
    with out_of_memory(desk):
        assert fence_of(desk.attempt(BOB)) == desk.state().fence
    assert desk.state().line == []


def test_a_waiter_of_a_cohort_that_was_given_it_can_confirm(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt_cohort(BOB)
    desk.release(ALICE)
    with out_of_memory(desk):
        assert fence_of(desk.attempt_cohort(BOB)) == desk.state().fence - FENCES + 1
    assert desk.state().line == []


def test_an_owner_whose_reply_was_lost_can_ask_again(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE))
    with out_of_memory(desk):
        assert fence_of(desk.attempt(ALICE)) == fence


def test_a_holder_can_release(desk: Desk) -> None:
    fence = fence_of(desk.attempt(ALICE))
    with out_of_memory(desk):
        assert desk.release(ALICE) == 1
        assert desk.state().owner is None
    assert fence_of(desk.ask(BOB)) > fence


@pytest.mark.parametrize("verb", ["release", "withdraw"])
def test_a_release_hands_over_and_rings(desk: Desk, inbox: Inbox, verb: str) -> None:
    fence = fence_of(desk.attempt(ALICE))
    desk.attempt(BOB, inbox=INBOX)
    desk.attempt(CAROL, inbox=INBOX)
    with out_of_memory(desk):
        assert getattr(desk, verb)(ALICE) in HANDED_ON
        assert inbox.bells()[0] == b"g" + BOB
        assert desk.state().owner == BOB
        assert desk.state().fence > fence
        assert fence_of(desk.attempt(BOB))


@pytest.mark.parametrize("queue", [False, True])
def test_a_grant_is_given_back_with_a_marker_too(desk: Desk, queue: bool) -> None:
    """A lease is released in this way if one of its attempts got no answer."""
    desk.attempt(ALICE)
    if queue:
        desk.attempt(BOB)
    with out_of_memory(desk):
        assert desk.withdraw(ALICE, desk.now() + 2_000) == 1
        assert desk.state().owner == (BOB if queue else None)
        assert desk.attempt(ALICE)[0] == -3


@pytest.mark.parametrize("held", [False, True])
def test_a_marker_can_be_set_on_what_is_not_ours(desk: Desk, held: bool) -> None:
    if held:
        desk.attempt(ALICE)
    with out_of_memory(desk):
        assert desk.withdraw(BOB, desk.now() + 2_000) == 1
    assert desk.attempt(BOB)[0] == -3


def test_waiters_keep_their_places(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.pass_time(HEARTBEAT - 500)
    with out_of_memory(desk):
        assert [desk.touch(BOB) for _ in range(3)] == [1, 1, 1]
    assert desk.state().line[0].expiry > desk.now() + HEARTBEAT - 1_000


def test_an_adoption_fails_and_changes_nothing(desk: Desk) -> None:
    desk.attempt(ALICE)
    before = desk.dump()
    with out_of_memory(desk):
        assert is_refused(desk.adopt(ALICE, BOB))
        assert desk.dump() == before


def test_inspection_works(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    with out_of_memory(desk):
        _, value, left, _, line, *_ = desk.inspect()
    assert value[3:27] == ALICE
    assert left > 29_000
    assert line[0] == BOB
    assert desk.time_left(desk.keys.main) > TAIL
