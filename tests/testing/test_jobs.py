"""The ready-made jobs on a clock that the test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdtight import Locks, LossReason, Skipped
from holdtight.testing import Clock
from tests.support.processes import wait_for


def test_synchronized_waits_on_the_clock(clock: Clock, locks: Locks) -> None:
    ended = list[float]()

    @locks.synchronized("job", wait=5)
    def job() -> None:
        ended.append(clock.now())

    lease = locks.lock("job").acquire()
    thread = threading.Thread(target=job)
    thread.start()
    clock.until_waiting(1)
    clock.advance(3)
    lease.release()
    thread.join(10)
    assert ended == [3.0]


def test_once_runs_again_when_its_time_is_over(clock: Clock, locks: Locks) -> None:
    ran = list[float]()

    @locks.once("job", at_least="50m")
    def job() -> str:
        ran.append(clock.now())
        return "ran"

    assert job() == "ran"
    clock.advance(49 * 60)
    skipped = job()
    assert isinstance(skipped, Skipped)
    assert skipped.why == "done"
    clock.advance(61)
    assert job() == "ran"
    assert ran == [0.0, 50 * 60 + 1.0]


def test_a_value_of_single_flight_ages_by_the_clock(clock: Clock, locks: Locks) -> None:
    computed = list[float]()

    @locks.single_flight("value", ttl=60, stale=600)
    def value() -> int:
        computed.append(clock.now())
        return len(computed)

    assert value() == 1
    clock.advance(59)
    assert value() == 1
    clock.advance(2)
    peek = value.peek()
    assert peek is not None
    assert (peek.state, round(peek.age)) == ("stale", 61)
    assert value() == 2


def test_a_leader_pauses_on_the_clock(clock: Clock, locks: Locks) -> None:
    terms = list[float]()
    leader = locks.leader("poller", ttl=15)

    def poll(term: Any) -> None:
        terms.append(clock.now())
        if len(terms) == 3:
            leader.stop()

    thread = threading.Thread(target=leader.run, args=(poll,), kwargs={"pause": 100})
    thread.start()
    for number in (1, 2):
        wait_for(lambda number=number: len(terms) >= number)  # type: ignore[misc]
        clock.until_waiting(1)
        clock.advance(100)
    thread.join(10)
    assert terms == [0.0, 100.0, 200.0]


def running(leader: Any, work: Callable[[Any], object], **options: Any) -> threading.Thread:
    thread = threading.Thread(target=leader.run, args=(work,), kwargs=options)
    thread.start()
    return thread


def test_a_leader_whose_lease_is_renewed_has_not_overrun(
    clock: Clock, locks: Locks, caplog: pytest.LogCaptureFixture
) -> None:
    leader = locks.leader("poller", ttl=15)
    thread = running(leader, lambda term: term.wait_lost())
    clock.until_waiting(1)
    clock.advance(100)
    leader.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert "its work goes on" not in caplog.text


def test_a_leader_that_lost_its_term_campaigns_without_a_pause(clock: Clock, locks: Locks) -> None:
    leader, terms = locks.leader("poller", ttl=15), list[Any]()

    def work(term: Any) -> None:
        terms.append((clock.now(), term.wait_lost(), term.reason))

    thread = running(leader, work, pause=1000)
    clock.until_waiting(1)
    locks.force_release("poller", reason="test")
    clock.advance(20)  # the renewal learns of it, and the lock is free again when its ttl would have ended
    wait_for(lambda: terms)
    wait_for(lambda: leader.current() is not None)
    clock.until_waiting(1)
    leader.stop()
    thread.join(10)
    assert [(lost, reason) for _, lost, reason in terms] == [(True, LossReason.FORCED)] * 2
    assert terms[1][0] <= 20.0


def test_an_observer_tells_nothing_while_nothing_changes(clock: Clock, locks: Locks) -> None:
    leader, seen = locks.leader("poller", ttl=15), list[Any]()
    end = leader.on_change(seen.append)
    clock.until_waiting(1)
    clock.advance(10)
    assert seen == [None]
    with leader:
        clock.advance(10)
        end()
    wait_for(lambda: not any(thread.name == "holdtight-observer" for thread in threading.enumerate()))
    assert [now is None for now in seen] == [True, False]
