"""What is left when all owners have gone: nothing without an expiry, nothing for longer than promised."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdtight.stores.memory.engine import HEARTBEAT, TAIL
from tests.scripts.workbench import ALICE, BOB, CAROL, Desk, owner

TTL = 1_000


def released(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.release(ALICE)


def expired(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.pass_time(TTL)


def released_after_others_waited(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.attempt(BOB, ttl=TTL)
    desk.withdraw(BOB)
    desk.release(ALICE)


def handed_down_a_line(desk: Desk) -> None:
    line = [owner(str(n)) for n in range(20)]
    for who in line:
        desk.attempt(who, ttl=TTL)
    for who in line:
        desk.attempt(who, ttl=TTL)
        desk.release(who)


def handed_to_the_dead(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.attempt(BOB, ttl=TTL)
    desk.attempt(CAROL, ttl=TTL)
    desk.release(ALICE)
    desk.pass_time(500)


def all_dead(desk: Desk) -> None:
    for who in (ALICE, BOB, CAROL):
        desk.attempt(who, ttl=TTL)
        desk.touch(who)
    desk.pass_time(TTL)


def unreachable(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.attempt(BOB, ttl=TTL, inbox=b"nobody listens")
    desk.release(ALICE)
    desk.ask(CAROL, ttl=TTL)
    desk.release(CAROL)


def stopped_in_the_middle_of_a_sweep(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.crowd(300, inbox=b"nobody listens")
    assert desk.release(ALICE) == 2


def withdrawn_with_a_marker(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.withdraw(ALICE, desk.now() + 2_000)
    desk.withdraw(BOB, desk.now() + 2_000)


def adopted(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.attempt(CAROL, ttl=TTL)
    desk.adopt(ALICE, BOB, ttl=TTL)
    desk.withdraw(CAROL)
    desk.release(BOB)


def readers_released(desk: Desk) -> None:
    for who in (ALICE, BOB, CAROL):
        desk.read(who, ttl=TTL)
    for who in (ALICE, BOB, CAROL):
        desk.release(who)


def readers_expired(desk: Desk) -> None:
    for who in (ALICE, BOB, CAROL):
        desk.read(who, ttl=TTL)
    desk.pass_time(TTL)


def readers_handed_to_a_writer_and_back(desk: Desk) -> None:
    desk.read(ALICE, ttl=TTL)
    desk.attempt(BOB, ttl=TTL)
    desk.read(CAROL, ttl=TTL)
    for who in (ALICE, BOB, CAROL):
        desk.release(who)


def readers_let_in_but_dead(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    for who in (BOB, CAROL):
        desk.read(who, ttl=TTL)
    desk.release(ALICE)
    desk.pass_time(500)


def a_long_lease_among_markers(desk: Desk) -> None:
    """The hash must not stay for as long as a reader might have stayed."""
    desk.read(ALICE, ttl=3_600_000)
    desk.withdraw(BOB, desk.now() + 2_000)
    desk.release(ALICE)


def a_long_lease_among_dead_waiters(desk: Desk) -> None:
    desk.read(ALICE, ttl=3_600_000)
    desk.crowd(300, dead=True)
    while desk.release(ALICE) == 2 or desk.withdraw(ALICE) == 2:
        pass


def a_long_lease_before_a_writer(desk: Desk) -> None:
    desk.read(ALICE, ttl=3_600_000)
    desk.attempt(BOB, ttl=TTL, inbox=b"nobody listens")
    desk.attempt(CAROL, ttl=TTL)
    desk.release(ALICE)
    desk.attempt(CAROL, ttl=TTL)
    desk.release(CAROL)


def a_lapsed_marker_among_readers(desk: Desk) -> None:
    desk.read(ALICE, ttl=3_600_000)
    desk.withdraw(BOB, desk.now() + 2_000)
    desk.pass_time(2_001)
    desk.read(CAROL, ttl=TTL)
    desk.release(CAROL)
    desk.release(ALICE)


def permits_released(desk: Desk) -> None:
    for who, n in ((ALICE, 1), (BOB, 3), (CAROL, 1), (owner("dave"), 2)):
        desk.permit(who, n, of=4, ttl=TTL)
    for who in (ALICE, BOB, CAROL, owner("dave")):
        desk.release(who)
        desk.withdraw(who)


def permits_expired(desk: Desk) -> None:
    for who in (ALICE, BOB, CAROL):
        desk.permit(who, of=2, ttl=TTL)
    desk.pass_time(TTL)


def downgraded(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=3_600_000)
    desk.read(BOB, ttl=TTL)
    desk.downgrade(ALICE, ttl=TTL)
    for who in (BOB, ALICE):
        desk.release(who)


def a_semaphore_that_became_a_lock(desk: Desk) -> None:
    desk.permit(ALICE, 2, of=2, ttl=TTL)
    desk.pass_time(TTL)
    desk.attempt(BOB, ttl=TTL)
    desk.release(BOB)


def told_its_time(desk: Desk) -> None:
    """By ordinals, which the server remembers for a while."""
    desk.attempt(ALICE, ttl=3_600_000)
    for ordinal in (1, 2, 3):
        desk.renew(ALICE, ttl=TTL, ordinal=ordinal)
    desk.release(ALICE)


def readers_told_their_time(desk: Desk) -> None:
    for who in (ALICE, BOB):
        desk.read(who, ttl=TTL)
        desk.renew(who, ttl=500, ordinal=1)
    for who in (ALICE, BOB):
        desk.release(who)


def downgraded_with_a_marker(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.downgrade(ALICE, ttl=TTL, marker=f"{desk.now() + 2_000}7")
    desk.release(ALICE)


def an_adoption_that_was_given_up(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.withdraw(BOB, desk.now() + 2_000)
    assert desk.adopt(ALICE, BOB, ttl=3_600_000)[0] == -3
    desk.pass_time(TTL)


def refused(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    desk.attempt(BOB, ttl=TTL, limit=1)
    desk.attempt(CAROL, ttl=TTL, limit=1)
    desk.renew(BOB)
    desk.touch(CAROL)
    desk.adopt(BOB, CAROL)
    desk.release(BOB)
    desk.withdraw(BOB)
    desk.release(ALICE)


everything = [
    released,
    expired,
    released_after_others_waited,
    handed_down_a_line,
    handed_to_the_dead,
    all_dead,
    unreachable,
    stopped_in_the_middle_of_a_sweep,
    withdrawn_with_a_marker,
    adopted,
    told_its_time,
    readers_told_their_time,
    downgraded_with_a_marker,
    an_adoption_that_was_given_up,
    refused,
    readers_released,
    readers_expired,
    readers_handed_to_a_writer_and_back,
    readers_let_in_but_dead,
    a_long_lease_among_markers,
    a_long_lease_among_dead_waiters,
    a_long_lease_before_a_writer,
    a_lapsed_marker_among_readers,
    permits_released,
    permits_expired,
    downgraded,
    a_semaphore_that_became_a_lock,
]
histories = pytest.mark.parametrize("history", everything, ids=lambda function: function.__name__)


@histories
def test_what_is_left_goes_by_itself_in_time(desk: Desk, history: Callable[[Desk], None]) -> None:
    history(desk)
    assert desk.dump(), "something is left, or this test shows nothing"
    # Beside holders whose time is up the hash stays with them, so that the next taker learns their names.
    waiters = TAIL if desk.state().holders else HEARTBEAT
    for key, longest in zip(desk.keys, (TAIL, HEARTBEAT, waiters, TAIL), strict=True):
        left = desk.time_left(key)
        assert left == -2 or 0 <= left <= longest, f"{key!r} has {left} ms left"


@histories
def test_after_that_the_server_is_empty(desk: Desk, history: Callable[[Desk], None]) -> None:
    history(desk)
    desk.pass_time(TAIL + 1)
    assert desk.dump() == {}


@histories
def test_nothing_but_the_keys_of_the_name_was_touched(desk: Desk, history: Callable[[Desk], None]) -> None:
    history(desk)
    assert set(desk.dump()) <= set(desk.keys)
