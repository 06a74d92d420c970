"""Renewals, losses and callbacks at the moments of a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight import LeaseLost, Locks, LossReason, NotOwner
from holdtight.events import Event
from holdtight.testing import Clock


def log_of(clock: Clock, locks: Locks) -> list[tuple[float, str, str]]:
    """What happens from now on, with the time."""
    heard: list[tuple[float, str, str]] = []

    def hear(event: Event) -> None:
        heard.append((clock.now(), type(event).__name__, event.name))

    locks.events.subscribe(hear)
    return heard


def test_a_lease_is_renewed_at_a_third_of_its_ttl(clock: Clock, locks: Locks) -> None:
    heard = log_of(clock, locks)
    lease = locks.lock("a").acquire()
    clock.advance(2.999)
    assert lease.remaining() == pytest.approx(9 - 0.09 - 0.002 - 2.999)
    clock.advance(7.001)
    assert heard == [(0.0, "Acquired", "a")] + [(float(at), "Renewed", "a") for at in (3, 6, 9)]
    lease.check()
    lease.release()
    assert heard[-1] == (10.0, "Released", "a")


def test_a_week_of_renewals_takes_no_time(clock: Clock, locks: Locks) -> None:
    lease = locks.lock("a", ttl="1h").acquire()
    clock.advance("24h")
    lease.check()
    assert lease.remaining() > 2400
    lease.release()


def test_what_is_not_renewed_expires_a_little_before_the_server_says_so(clock: Clock, locks: Locks) -> None:
    lease = locks.lock("a", ttl=1, renew=False).acquire()
    clock.advance(0.987)
    lease.check()
    clock.advance(0.001)
    assert lease.lost
    assert lease.reason is LossReason.EXPIRED
    assert locks.lock("a").try_acquire() is None
    clock.advance(0.012)
    with locks.lock("a", wait=0):
        pass
    with pytest.raises(NotOwner):
        lease.release()


def test_a_callback_has_been_called_when_advance_returns(clock: Clock, locks: Locks) -> None:
    called: list[tuple[float, Any]] = []
    lease = locks.lock("a", ttl=1, renew=False).acquire()
    lease.on_lost(lambda lost: called.append((clock.now(), lost)))
    clock.advance(60)
    assert called == [(0.988, lease)]
    lease.on_lost(lambda lost: called.append((clock.now(), lost)))
    assert called[1:] == [(60.0, lease)], "at once if it is lost already"


def test_a_callback_that_fails_is_logged_and_the_time_goes_on(
    clock: Clock, locks: Locks, caplog: pytest.LogCaptureFixture
) -> None:
    lease = locks.lock("a", ttl=1, renew=False).acquire()
    lease.on_lost(lambda lost: 1 / 0)
    clock.advance(5)
    assert clock.now() == 5
    assert "a callback of holdtight's failed" in caplog.text


def test_max_hold_ends_a_lease_to_the_millisecond(clock: Clock, locks: Locks) -> None:
    lease = locks.lock("a", max_hold=20).acquire()
    clock.advance(19.999)
    lease.check()
    clock.advance(0.001)
    assert lease.reason is LossReason.MAX_HOLD
    clock.advance(1)
    with locks.lock("a", wait=0):
        pass


def test_data_that_the_store_lost_is_noticed_at_the_next_renewal(clock: Clock, locks: Locks) -> None:
    lease = locks.lock("a").acquire()
    clock.stores.server("").forget_everything()
    clock.advance(2.9)
    assert not lease.lost
    clock.advance(0.1)
    assert lease.reason is LossReason.EXPIRED


def test_a_block_whose_lease_expired_says_so(clock: Clock, locks: Locks) -> None:
    with pytest.raises(LeaseLost), locks.lock("a", ttl=1, renew=False):
        clock.advance(1)


def test_renewing_by_hand_and_detaching_happen_at_once(clock: Clock, locks: Locks) -> None:
    lease = locks.lock("a").acquire()
    lease.renew(100)
    assert lease.remaining() == pytest.approx(98.998)
    text = lease.detach(ttl=50)
    clock.advance(49)
    adopted = locks.adopt(text)
    assert adopted.fence > lease.fence
    clock.advance(1000)
    adopted.release()


def test_a_lease_that_was_dropped_ends_within_its_ttl(clock: Clock, locks: Locks) -> None:
    with pytest.warns(ResourceWarning, match="dropped"):
        locks.lock("a").acquire()
    clock.advance(8.9)
    assert locks.lock("a").try_acquire() is None
    clock.advance(0.1)
    with locks.lock("a", wait=0):
        pass
