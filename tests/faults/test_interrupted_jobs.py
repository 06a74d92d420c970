"""A Ctrl-C that the program survives, wherever it comes in a job: no lock stays, and no later call waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdtight import Locks
from holdtight.base.identity import current_work
from holdtight.sync.flights import Registry
from tests.faults.test_interrupted_anywhere import DROPPED, TTL, nothing_is_left_behind
from tests.support.processes import wait_for
from tests.support.servers import RunningServer


@pytest.fixture
def locks(private_server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Locks]:
    monkeypatch.setattr("holdtight.sync.driver.UNDO_SECONDS", 0.1)  # each lost reply costs this wait
    with Locks(private_server.url, ttl=TTL) as locks:
        yield locks
        assert not locks.flights(Registry)._flights, "a later call would wait for ever"
        assert current_work.get() is None


@pytest.fixture(params=[32, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
def one_of(request: pytest.FixtureRequest) -> int:
    """The test interrupts a use at every n-th moment. `make faults` interrupts it at all of them."""
    return int(request.param)


def once(locks: Locks, name: str) -> None:
    job = locks.once(name, ttl=TTL)(work)
    job()


def once_with_a_record(locks: Locks, name: str) -> None:
    job = locks.once(name, at_least=60, ttl=TTL)(work)
    job.forget()
    job()


def flight(locks: Locks, name: str) -> None:
    job = locks.single_flight(name, ttl=60, lease_ttl=TTL)(work)
    job.invalidate()
    job()


def refreshed_flight(locks: Locks, name: str) -> None:
    job = locks.single_flight(name, ttl=60, stale=60, refresh="background", lease_ttl=TTL)(work)
    job()
    job.expire()
    job()
    wait_for(lambda: not locks.flights(Registry)._flights and not locks.flights(Registry).in_background)


def leader(locks: Locks, name: str) -> None:
    with locks.leader(name, ttl=TTL):
        work()


def running_leader(locks: Locks, name: str) -> None:
    candidate = locks.leader(name, ttl=TTL)

    def stops(term: Any) -> None:
        candidate.stop()

    candidate.run(stops, pause=0)


def work() -> int:
    return 7


@DROPPED
@pytest.mark.parametrize(
    "use",
    [once, once_with_a_record, flight, refreshed_flight, leader, running_leader],
    ids=lambda use: use.__name__,
)
def test_interrupted_anywhere_a_job_leaves_nothing_behind(
    locks: Locks, use: Callable[[Locks, str], None], one_of: int
) -> None:
    nothing_is_left_behind(locks, use, one_of)
