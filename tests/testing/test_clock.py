"""Time that passes when the test says so, for blocking code and threads."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdtight import DeadlockDetected, LeaseLost, Locks, LockTimeout, LossReason, NotOwner
from holdtight.events import Event
from holdtight.testing import Clock
from tests.support.processes import StartChild


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    yield clock
    clock.stop()


@pytest.fixture
def locks(clock: Clock) -> Iterator[Locks]:
    with Locks(clock.store(), ttl=9) as locks:
        yield locks


Start = Callable[..., threading.Thread]


@pytest.fixture
def start(clock: Clock) -> Iterator[Start]:
    """Starts a thread and comes back when it waits on the clock, with those before it."""
    threads: list[threading.Thread] = []

    def begin(work: Callable[..., object], *args: Any) -> threading.Thread:
        waiting = clock.waiting
        thread = threading.Thread(target=work, args=args)
        thread.start()
        threads.append(thread)
        clock.until_waiting(waiting + 1)
        return thread

    yield begin
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def log_of(clock: Clock, locks: Locks) -> list[tuple[float, str, str]]:
    """What happens from now on, with the time."""
    heard: list[tuple[float, str, str]] = []

    def hear(event: Event) -> None:
        heard.append((clock.now(), type(event).__name__, event.name))

    locks.events.subscribe(hear)
    return heard


# The clock itself.


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


# Renewals and losses.


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


# Threads that wait.


def test_a_wait_ends_when_its_time_has_come(clock: Clock, locks: Locks, start: Start) -> None:
    ended: list[float] = []

    def give_up() -> None:
        with pytest.raises(LockTimeout) as caught:
            locks.lock("a").acquire(wait=5)
        assert caught.value.waited == 5
        ended.append(clock.now())

    with locks.lock("a"):
        start(give_up)
        clock.advance(4.999999)
        assert ended == []
        clock.advance(0.000001)
        assert ended == [5.0]


def test_who_waits_gets_the_lock_when_it_is_released_and_when_it_expires(
    clock: Clock, locks: Locks, start: Start
) -> None:
    got: list[tuple[str, float]] = []

    def take(name: str) -> None:
        with locks.lock("a"):
            got.append((name, clock.now()))

    lease = locks.lock("a").acquire()
    start(take, "first")
    clock.advance(100)
    assert got == []
    lease.release()
    clock.advance(0)
    assert got == [("first", 100.0)]
    lease = locks.lock("a", ttl=5, renew=False).acquire()
    start(take, "second")
    clock.advance(60)
    assert got[1:] == [("second", 105.0)]
    assert lease.lost


def test_threads_are_served_in_order_one_at_a_time_and_each_at_its_moment(
    clock: Clock, locks: Locks, start: Start
) -> None:
    log: list[tuple[int, str, float]] = []
    lease = locks.lock("a").acquire()

    def turn(number: int) -> None:
        with locks.lock("a"):
            log.append((number, "in", clock.now()))
            time.sleep(0.002)
            log.append((number, "out", clock.now()))
        log.append((number, "gone", clock.now()))

    for number in range(5):
        start(turn, number)
        clock.advance(1)
    lease.release()
    clock.advance(1)
    assert log == [(number, what, 5.0) for number in range(5) for what in ("in", "out", "gone")]


def test_a_loop_of_waits_takes_each_of_its_turns_at_its_moment(clock: Clock, locks: Locks, start: Start) -> None:
    """A thread that goes on waiting after each timeout is let run until it waits again, ten times."""
    moments: list[float] = []

    def try_again() -> None:
        while len(moments) < 10:
            try:
                locks.lock("a").acquire(wait=1)
            except LockTimeout:
                moments.append(clock.now())

    with locks.lock("a"):
        start(try_again)
        clock.advance(60)
        assert moments == [float(at) for at in range(1, 11)]


def test_two_that_wait_alternately_do_it_in_the_order_of_time(clock: Clock, locks: Locks, start: Start) -> None:
    log: list[tuple[float, str]] = []

    def wait(name: str, seconds: float) -> None:
        for _ in range(3):
            with pytest.raises(LockTimeout):
                locks.lock("a").acquire(wait=seconds)
            log.append((clock.now(), name))

    with locks.lock("a"):
        start(wait, "slow", 3)
        start(wait, "quick", 2)
        clock.advance(20)
    assert log == [(2.0, "quick"), (3.0, "slow"), (4.0, "quick"), (6.0, "slow"), (6.0, "quick"), (9.0, "slow")]


def test_a_thread_that_waits_for_something_else_holds_nobody_up(clock: Clock, locks: Locks, start: Start) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with locks.lock("a"):
            entered.set()
            leave.wait(20)

    lease = locks.lock("a").acquire()
    thread = start(stay)
    lease.release()
    before = time.monotonic()
    clock.advance(100)
    assert time.monotonic() - before < 5
    assert entered.is_set()
    assert clock.now() == 100
    assert thread.is_alive()
    assert not locks.lock("a").try_acquire(), "it holds the lock, renewed"
    leave.set()


def test_a_thread_that_never_rests_is_left_alone_after_a_while(start: Start, clock: Clock) -> None:
    impatient = Clock(patience="50ms")
    locks, stop = Locks(impatient.store()), threading.Event()

    def spin() -> None:
        with locks.lock("a"):
            while not stop.is_set():
                pass

    lease = locks.lock("a").acquire()
    thread = threading.Thread(target=spin)
    thread.start()
    impatient.until_waiting()
    lease.release()
    impatient.advance(1)
    assert impatient.now() == 1
    stop.set()
    thread.join(10)
    locks.close()


def test_a_missed_claim_costs_half_a_second(clock: Clock, locks: Locks, start: Start) -> None:
    """The lock is given to somebody who does not hear of it; the next looks when the claim window ends."""
    got: list[float] = []
    deaf = Locks(clock.store())
    opened = deaf.place.open

    def open_deaf(timeout: float) -> Any:
        link: Any = opened(timeout)
        link.listen(lambda message: None)
        return link

    def take() -> None:
        with locks.lock("a"):
            got.append(clock.now())

    deaf.place.open = open_deaf  # type: ignore[method-assign]
    lease = locks.lock("a", ttl=60).acquire()
    start(lambda: deaf.lock("a").acquire(wait=90).release())
    start(take)
    clock.advance(1)
    lease.release()
    clock.advance(0.499)
    assert got == []
    clock.advance(0.001)
    assert got == [1.5]
    clock.advance(90)
    deaf.close()


def test_a_heartbeat_keeps_the_place_of_who_waits(clock: Clock, locks: Locks, start: Start) -> None:
    got: list[str] = []

    def take(name: str) -> None:
        with locks.lock("a"):
            got.append(name)

    lease = locks.lock("a").acquire()
    start(take, "early")
    clock.advance("1h")
    start(take, "late")
    assert len(locks.inspect("a").waiters) == 2
    lease.release()
    clock.advance(0)
    assert got == ["early", "late"]


def test_a_deadlock_is_found_after_a_second(clock: Clock, locks: Locks, start: Start) -> None:
    found: list[float] = []

    def hold_and_want(first: str, second: str) -> None:
        try:
            with locks.lock(first):
                ready.wait(10)
                with locks.lock(second):
                    pass
        except DeadlockDetected:
            found.append(clock.now())

    ready = threading.Barrier(2)
    threads = [threading.Thread(target=hold_and_want, args=names) for names in (("x", "y"), ("y", "x"))]
    for thread in threads:
        thread.start()
    clock.until_waiting(2)
    clock.advance(30)
    assert len(found) == 1
    assert 1 <= found[0] <= 3
    for thread in threads:
        thread.join(10)


def test_waiting_for_a_loss_ends_with_it_or_with_its_time(clock: Clock, locks: Locks, start: Start) -> None:
    answers: list[tuple[bool, float]] = []
    lease = locks.lock("a", ttl=10, renew=False).acquire()
    start(lambda: answers.append((lease.wait_lost(3), clock.now())))
    start(lambda: answers.append((lease.wait_lost(), clock.now())))
    clock.advance(60)
    assert answers == [(False, 3.0), (True, 9.898)]


def test_an_interrupted_wait_leaves_the_line(clock: Clock, locks: Locks, start: Start) -> None:
    """Whatever is raised in a sleeping thread, here as its test ends."""
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            locks.lock("a").acquire()
        except RuntimeError as error:
            raised.append(error)

    lease = locks.lock("a").acquire()
    thread = start(wait)
    clock.stop()
    thread.join(10)
    assert "when its test was over" in str(raised[0])
    assert locks.inspect("a").waiting == 0
    lease.release()


# What cannot be.


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


def test_who_is_not_there_is_not_waited_for_for_ever(clock: Clock) -> None:
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
