"""A fleet of all kinds under random kills: no two holders overlap that must not, and nothing is left."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from holdtight import Locks
from holdtight.base.clock import boottime
from tests.faults import campaign
from tests.faults.clients import lock_keys
from tests.support.processes import Child, StartChild, wait_for
from tests.support.servers import RunningServer

WORKERS = 8
ENOUGH = 20_000
"""Bytes of diary for each second: some hundred grants."""


@pytest.mark.parametrize("seconds", [4.0, pytest.param(30.0, marks=pytest.mark.long)])
def test_a_fleet_of_all_kinds_under_random_kills(
    private_server: RunningServer, start_child: StartChild, tmp_path: Path, seconds: float
) -> None:
    diary, dice = str(tmp_path / "diary"), random.Random(7)
    count = 0
    kills: list[tuple[float, str]] = []

    def recruit() -> tuple[str, Child]:
        nonlocal count
        count += 1
        worker = f"worker{count}"
        work = campaign.in_threads if count % 2 else campaign.in_tasks
        return worker, start_child(work, private_server.url, diary, worker)

    fleet = [recruit() for _ in range(WORKERS)]
    wait_for(lambda: os.path.exists(diary) and os.path.getsize(diary) > 1000, within=30, what="the fleet to work")
    begun = time.monotonic()
    # A busy machine needs longer for as many grants.
    while time.monotonic() < begun + seconds or (
        os.path.getsize(diary) < ENOUGH * seconds and time.monotonic() < begun + 10 * seconds
    ):
        time.sleep(dice.uniform(0.2, 0.6))
        worker, child = fleet.pop(dice.randrange(len(fleet)))
        child.kill()
        kills.append((boottime(), worker))
        fleet.append(recruit())
    for worker, child in fleet:
        child.kill()
        kills.append((boottime(), worker))

    referee = campaign.Referee()
    referee.judge(campaign.read_diary(diary), list(kills))
    assert referee.faults == []
    assert all(referee.grants[mode] > 10 * seconds for mode in "xrp"), dict(referee.grants)
    assert referee.together >= 3, "readers and permits were never held together: nothing was tested"
    assert len(kills) > WORKERS

    _everything_can_be_had(private_server)
    wait_for(lambda: not lock_keys(private_server), within=12, what="the server to be empty 10 s after draining")


def _everything_can_be_had(server: RunningServer) -> None:
    """Within the ttl of the killed holders and a heartbeat, however many dead waiters are ahead."""
    with Locks(server.url, wait=15) as locks:
        for book in campaign.BOOKS:
            locks.lock(book).acquire().release()
            locks.rwlock(book).read().acquire().release()
        for gate, limit in campaign.LIMITS.items():
            locks.semaphore(gate, permits=limit).acquire(limit).release()
        locks.multi(*campaign.BOOKS).acquire().release()


def test_the_referee_sees_what_must_not_be() -> None:
    def entry(at: float, what: str, lease: str, name: str, mode: str, n: int = 1) -> campaign.Entry:
        return campaign.Entry(at, what, "w", lease, name, mode, n, 1)

    for diary in (
        [entry(1, "begin", "a", "book", "x"), entry(2, "begin", "b", "book", "x")],
        [entry(1, "begin", "a", "book", "r"), entry(2, "begin", "b", "book", "x")],
        [entry(1, "begin", "a", "book", "x"), entry(2, "begin", "b", "book", "r")],
        [entry(1, "begin", "a", "gate", "p", 2), entry(2, "begin", "b", "gate", "p", 2)],
    ):
        referee = campaign.Referee()
        referee.judge(diary, [])
        assert len(referee.faults) >= 1
        told = campaign.Referee()
        told.judge(diary, [(1.5, "w")])  # the first was killed in between
        assert told.faults == []
