"""The last moment at which something still counts, and the first at which it no longer does; to the µs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from holdtight.stores.memory.engine import CLAIM, HEARTBEAT, SWEEP, TAIL
from tests.scripts.clockwork import ClockworkDesk
from tests.scripts.workbench import ALICE, BOB, CAROL, fence_of
from tests.support.servers import FLAVOURS, start

NOW = 1_800_000_000_123_456
START = NOW // 1000
"""The same in ms: what is set at NOW counts from here, and ends with its last ms."""
TTL = 1_000


@pytest.fixture(scope="module")
def clockwork() -> Iterator[ClockworkDesk]:
    flavour = next((each for each in FLAVOURS if not each.missing()), None)
    if flavour is None:
        pytest.skip(f"needs {FLAVOURS[0].needs}")
    with start(flavour) as server, closing(ClockworkDesk(server)) as desk:
        yield desk


@pytest.fixture
def desk(clockwork: ClockworkDesk) -> ClockworkDesk:
    clockwork.wire.call("FLUSHALL")
    clockwork.set_clock(NOW)
    return clockwork


def at(desk: ClockworkDesk, ms: int, micros: int = 0) -> None:
    """That many ms after the beginning of the ms of NOW."""
    desk.set_clock((START + ms) * 1000 + micros)
    desk.expire_due()


def test_a_lease_counts_through_the_last_microsecond_before_its_end(desk: ClockworkDesk) -> None:
    desk.attempt(ALICE, ttl=TTL)
    at(desk, TTL - 1, 999)
    assert desk.ask(BOB)[2:4] == [ALICE, 1]
    assert desk.renew(ALICE, ttl=1) == 1
    at(desk, TTL)
    assert desk.renew(ALICE, ttl=TTL) == [0, b""]
    assert desk.adopt(ALICE, BOB)[0] == 0
    assert desk.ask(BOB)[3] == ALICE, "the expired holder"


def test_a_lapsed_holder_is_seen_for_as_long_as_its_key_stays(desk: ClockworkDesk) -> None:
    for ms, expired in ((TTL + TAIL, ALICE), (TTL + TAIL + 1, None)):
        desk.wire.call("FLUSHALL")
        desk.set_clock(NOW)
        desk.attempt(ALICE, ttl=TTL)
        at(desk, ms)
        reply = desk.ask(BOB)
        assert (reply[3] if isinstance(reply, list) else None) == expired


@pytest.mark.parametrize("verb", ["attempt", "renew", "adopt"])
def test_a_request_is_late_one_microsecond_after_its_limit(desk: ClockworkDesk, verb: str) -> None:
    desk.attempt(ALICE)
    acts: dict[str, Callable[[int], Any]] = {
        "attempt": lambda limit: desk.attempt(ALICE, not_after=limit),
        "renew": lambda limit: desk.renew(ALICE, not_after=limit),
        "adopt": lambda limit: desk.adopt(ALICE, BOB, not_after=limit),
    }
    assert acts[verb](NOW - 1) == [-1, START]
    assert acts[verb](NOW) == (1 if verb == "renew" else [1, b"%d" % desk.state().fence, START, b""])


def test_a_marker_counts_through_the_millisecond_it_names(desk: ClockworkDesk) -> None:
    """The client rounds an arrival limit up, so the whole ms must be covered."""
    desk.withdraw(BOB, START + 120)
    at(desk, 120, 999)
    assert desk.attempt(BOB) == [-3, START + 120]
    at(desk, 121)
    assert fence_of(desk.attempt(BOB))


def test_a_marker_counts_so_long_on_a_name_in_use_too(desk: ClockworkDesk) -> None:
    desk.attempt(ALICE, ttl=60_000)
    desk.attempt(CAROL)
    desk.withdraw(BOB, START + 120)
    at(desk, 120, 999)
    assert desk.attempt(BOB)[0] == -3
    at(desk, 121)
    assert desk.attempt(BOB)[0] == 0


def test_a_marker_that_has_just_ended_is_not_stored(desk: ClockworkDesk) -> None:
    desk.withdraw(BOB, START)
    assert not desk.wire.call("EXISTS", desk.keys.waiters)
    desk.withdraw(BOB, START + 1)
    assert desk.attempt(BOB)[0] == -3


@pytest.mark.parametrize(("ttl", "window"), [(60_000, CLAIM), (CLAIM, CLAIM), (CLAIM - 1, CLAIM - 1), (1, 1)])
def test_a_claim_can_be_confirmed_until_its_window_ends(desk: ClockworkDesk, ttl: int, window: int) -> None:
    for ms, same in ((window - 1, True), (window, False)):
        desk.wire.call("FLUSHALL")
        desk.set_clock(NOW)
        desk.attempt(ALICE)
        desk.attempt(BOB, ttl=ttl)
        desk.release(ALICE)
        fence = desk.state().fence
        at(desk, ms)
        assert (fence_of(desk.attempt(BOB)) == fence) == same


def test_a_waiter_is_dead_when_its_heartbeat_is_due(desk: ClockworkDesk) -> None:
    desk.attempt(ALICE, ttl=60_000)
    desk.attempt(BOB)
    at(desk, 100)
    desk.attempt(CAROL)
    at(desk, HEARTBEAT - 1, 999)
    assert desk.inspect()[4][::2] == [BOB, CAROL]
    at(desk, HEARTBEAT)
    assert desk.inspect()[4][::2] == [CAROL]
    desk.release(ALICE)
    assert desk.state().owner == CAROL


def test_the_line_goes_with_the_last_heartbeat(desk: ClockworkDesk) -> None:
    desk.attempt(ALICE, ttl=60_000)
    desk.attempt(BOB)
    at(desk, 1_000)
    desk.touch(BOB)
    at(desk, 1_000 + HEARTBEAT)
    assert desk.wire.call("EXISTS", desk.keys.queue, desk.keys.waiters) == 2
    at(desk, 1_000 + HEARTBEAT + 1)
    assert desk.wire.call("EXISTS", desk.keys.queue, desk.keys.waiters) == 0


# Sharers


@pytest.mark.parametrize("mode", ["r", "p"])
def test_a_place_counts_through_the_last_microsecond_before_its_end(desk: ClockworkDesk, mode: str) -> None:
    desk.share(ALICE, mode=mode, permits=1, ttl=TTL)

    def rival() -> Any:
        return desk.ask(BOB) if mode == "r" else desk.permit(BOB, of=1, limit=0)

    at(desk, TTL - 1, 999)
    assert rival()[2:4] == [ALICE, 1]
    assert desk.renew(ALICE, ttl=1) == 1
    at(desk, TTL)
    assert desk.renew(ALICE, ttl=TTL) == [0, b""]
    assert desk.inspect()[-1] == 0
    assert rival()[3] == ALICE, "the expired holder"


@pytest.mark.parametrize("mode", ["r", "p"])
def test_an_expired_holder_is_reported_for_as_long_as_the_keys_stay(desk: ClockworkDesk, mode: str) -> None:
    for ms, expired in ((TTL + TAIL, ALICE), (TTL + TAIL + 1, None)):
        desk.wire.call("FLUSHALL")
        desk.set_clock(NOW)
        desk.share(ALICE, mode=mode, permits=1, ttl=TTL)
        at(desk, ms)
        reply = desk.share(BOB, mode=mode, permits=1)
        assert (reply[3] if isinstance(reply, list) else None) == expired


@pytest.mark.parametrize(("ttl", "window"), [(60_000, CLAIM), (CLAIM - 1, CLAIM - 1), (1, 1)])
def test_a_reader_can_confirm_until_its_window_ends(desk: ClockworkDesk, ttl: int, window: int) -> None:
    for ms, same in ((window - 1, True), (window, False)):
        desk.wire.call("FLUSHALL")
        desk.set_clock(NOW)
        desk.attempt(ALICE)
        desk.read(BOB, ttl=ttl)
        desk.release(ALICE)
        fence = desk.state().fence
        at(desk, ms)
        assert (fence_of(desk.read(BOB)) == fence) == same


@pytest.mark.parametrize("verb", ["read", "permit", "downgrade"])
def test_a_request_to_share_is_late_one_microsecond_after_its_limit(desk: ClockworkDesk, verb: str) -> None:
    if verb == "downgrade":
        desk.attempt(ALICE)
    assert getattr(desk, verb)(ALICE, not_after=NOW - 1) == [-1, START]
    assert fence_of(getattr(desk, verb)(ALICE, not_after=NOW))


def test_readers_in_one_microsecond_have_a_fence_each(desk: ClockworkDesk) -> None:
    assert [fence_of(desk.read(who)) for who in (ALICE, BOB, CAROL)] == [NOW, NOW + 1, NOW + 2]


def test_two_grants_in_one_microsecond_have_two_fences(desk: ClockworkDesk) -> None:
    assert desk.attempt(ALICE) == b"%d" % NOW
    desk.release(ALICE)
    assert desk.attempt(BOB) == [1, b"%d" % (NOW + 1), START, b""]
    desk.release(BOB)
    assert desk.adopt(BOB, ALICE)[0] == 0
    assert fence_of(desk.attempt(CAROL)) == NOW + 2


def test_a_fence_just_ahead_of_the_clock_outlives_a_short_lease(desk: ClockworkDesk) -> None:
    """For one µs longer than the key of the lease would remember it."""
    for lead in (TTL * 1000, TTL * 1000 + 1, TTL * 1000 + 1_001):
        desk.wire.call("FLUSHALL")
        desk.set_clock(NOW + lead)
        desk.attempt(ALICE, ttl=1)
        desk.set_clock(NOW)
        desk.renew(ALICE, ttl=TTL, ordinal=1)
        fence = desk.state().fence
        desk.set_clock(NOW + lead - 1)
        assert fence_of(desk.attempt(BOB)) > fence


def test_a_full_line_is_searched_for_dead_in_another_part_each_time(desk: ClockworkDesk) -> None:
    """Dead waiters behind hundreds of live ones are found too, in time."""
    desk.attempt(ALICE)
    living, dead = 2 * SWEEP, SWEEP
    desk.crowd(living)
    desk.crowd(dead, dead=True)
    parts = living + dead - SWEEP + 1
    desk.set_clock((START // parts + 1) * parts * 1000)
    assert desk.attempt(BOB, limit=living + 1)[::2] == [-2, living + dead], "a part where all live"
    at(desk, desk.now() - START + parts - 1)
    assert desk.attempt(BOB, limit=living + 1)[4] == living + 1, "the last part"
