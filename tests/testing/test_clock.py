"""Time that passes when the test says so, and its limits."""

from __future__ import annotations

import os
import threading
import time
import traceback
from typing import Any

import pytest

from holdtight import Locks, LossReason
from holdtight.testing import Clock
from tests.support.processes import StartChild


def test_time_stands_still_until_it_is_moved(clock: Clock) -> None:
    assert clock.now() == 0
    time.sleep(0.01)
    assert clock.now() == 0
    clock.advance("250ms")
    clock.advance(1)
    assert clock.now() == 1.25


def test_moments_are_exact_however_they_are_reached(clock: Clock) -> None:
    for _ in range(10):
        clock.advance(0.1)
    assert clock.now() == 1.0


@pytest.mark.parametrize("duration", [-1, float("nan"), True, "soon", None])
def test_time_goes_forward_by_a_duration(clock: Clock, duration: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="duration"):
        clock.advance(duration)


def test_stores_of_a_clock_are_apart_from_all_others(clock: Clock, locks: Locks) -> None:
    same, other = Locks(clock.store()), Locks(clock.store("other"))
    elsewhere, real = Locks(Clock().store()), Locks("memory://")
    with locks.lock("a"):
        assert same.lock("a").try_acquire() is None
        for free in (other, elsewhere, real):
            with free.lock("a", wait=0):
                pass
    for each in (same, other, elsewhere, real):
        each.close()


def test_no_thread_of_ours_is_started(clock: Clock, locks: Locks) -> None:
    before = set(threading.enumerate())
    lease = locks.lock("a").acquire()
    lease.on_lost(print)
    clock.advance(100)
    lease.renew()
    lease.release()
    assert set(threading.enumerate()) == before


# Limits.


def test_the_thread_that_moves_the_clock_cannot_wait_on_it(
    clock: Clock, locks: Locks, caplog: pytest.LogCaptureFixture
) -> None:
    lease = locks.lock("a", ttl=1, renew=False).acquire()
    held = locks.lock("b").acquire()
    lease.on_lost(lambda lost: locks.lock("b").acquire(wait=5))
    clock.advance(2)
    assert clock.now() == 2
    assert "cannot wait on it" in caplog.text
    held.release()


def test_a_callback_cannot_move_the_clock(clock: Clock, locks: Locks, caplog: pytest.LogCaptureFixture) -> None:
    lease = locks.lock("a", ttl=1, renew=False).acquire()
    lease.on_lost(lambda lost: clock.advance(5))
    clock.advance(2)
    assert clock.now() == 2
    assert "being advanced already" in caplog.text


def test_a_missing_waiter_is_not_waited_for_for_ever(clock: Clock) -> None:
    with pytest.raises(AssertionError, match=r"0 threads and tasks wait .*, not 2"):
        clock.until_waiting(2, within="20ms")


def test_a_forked_child_has_the_clock_and_none_of_its_waiters(start_child: StartChild) -> None:
    child = start_child(forks_while_somebody_waits)
    assert child.lines(30) == ["child 0", "served"], child.errors
    assert child.wait() == 0, child.errors


def forks_while_somebody_waits() -> None:
    clock = Clock()
    locks = Locks(clock.store(), ttl=9)
    lease = locks.lock("a").acquire()
    thread = threading.Thread(target=lambda: locks.lock("a").acquire().release())
    thread.start()
    clock.until_waiting()
    clock.advance(1)
    pid = os.fork()
    if pid == 0:
        try:
            assert clock.now() == 1
            assert clock.waiting == 0
            assert lease.reason is LossReason.FORKED
            with locks.lock("a", wait=0) as own:
                clock.advance(100)
                own.check()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(f"child {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}", flush=True)
    assert clock.now() == 1
    lease.release()
    thread.join(10)
    print("served" if not thread.is_alive() else "left waiting", flush=True)
