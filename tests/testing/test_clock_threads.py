"""Threads that wait on a clock that the test moves, each served at its moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdtight import DeadlockDetected, Locks, LockTimeout
from holdtight.testing import Clock

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


def test_a_waiter_gets_the_lock_when_it_is_released_and_when_it_expires(
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
    """The lock goes to a waiter that does not hear of it; the next one asks when the claim window ends."""
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


def test_a_heartbeat_keeps_the_place_of_a_waiter(clock: Clock, locks: Locks, start: Start) -> None:
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
    """Any exception in a sleeping thread, here at the end of its test."""
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
    assert "when its test ended" in str(raised[0])
    assert locks.inspect("a").waiting == 0
    lease.release()
