"""Failovers under load of both colours: nothing is lost where fences are checked, and overlaps are counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes import wait_for
from tests.support.sentinels import Topology
from tests.support.servers import RunningServer
from tests.topology.load import Load

ROUNDS = 2
MORE = 50
"""Grants before a failover, and after it."""
LIMIT = 1.0


def crash(topology: Topology) -> RunningServer:
    old = topology.master
    old.kill()
    return old


def hang(topology: Topology) -> RunningServer:
    old = topology.master
    old.pause()
    return old


NOWHERE = "1"


def crash_while_replicas_lag(topology: Topology, load: Load) -> RunningServer:
    """The replicas receive nothing for a while, then the master crashes."""
    for replica in topology.replicas:
        replica.command("REPLICAOF", "127.0.0.1", NOWHERE)
    load.keep_more()
    return crash(topology)


FAULTS: dict[str, Callable[[Topology, Load], RunningServer]] = {
    "crash": lambda topology, load: crash(topology),
    "orderly": lambda topology, load: topology.failover(),
    "hung": lambda topology, load: hang(topology),
    "lagging": crash_while_replicas_lag,
}


def more_grants(load: Load, number: int = MORE) -> None:
    before = load.grants
    wait_for(lambda: load.grants > before + number or load.unexpected, within=40, what="more grants")


def fail_over(topology: Topology, load: Load, fault: Callable[[Topology, Load], RunningServer]) -> None:
    more_grants(load)
    old = fault(topology, load)
    wait_for(lambda: any(each.named() != old.port for each in topology.sentinels), within=30, what="another master")
    since = time.monotonic()
    more_grants(load)
    load.times.append(next(each.since for each in load.held if each.since > since) - since)
    topology.heal()


@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(10 * ROUNDS, marks=pytest.mark.long)])
def test_failovers_lose_no_increment_and_give_no_fence_twice(
    topology: Topology, tmp_path: Path, what: str, rounds: int
) -> None:
    with Load(tmp_path / "counters", topology.url, topology.url) as load:
        for _ in range(rounds):
            fail_over(topology, load, FAULTS[what])
        more_grants(load)
    assert load.unexpected == []
    assert load.counted() == load.increments, "an increment was lost"
    assert not load.fences_repeat()
    overlaps = load.overlaps()
    longest = max((min(one.until, other.until) - other.since for one, other in overlaps), default=0.0)
    print(
        f"\n{what}: {rounds} failovers, {load.grants} grants, {load.increments} increments, {load.stale} refused, "
        f"{sum(each.lost for each in load.held)} leases lost, {len(overlaps)} overlaps, the longest {longest:.2f} s; "
        f"first grant after {max(load.times):.2f} s at most"
    )
    assert longest < 2 * LIMIT, "a holder that lost its lease is told within a second, and a busy machine needs another"
    if what == "lagging":
        assert sum(each.lost for each in load.held) >= rounds, "grants that no replica had are lost, and told"


def test_clients_that_stay_until_something_fails_share_locks_with_others(topology: Topology, tmp_path: Path) -> None:
    """The same load, of which the blocking half is not told: it goes to the master's own address."""
    topology.periods(publish_period=2000)
    with Load(tmp_path / "counters", topology.master.url, topology.url, ttl=5.0) as load:
        more_grants(load)
        topology.failover()
        wait_for(lambda: load.overlaps(), within=20, what="two holders of one lock")
    assert load.counted() == load.increments, "the fence protects even them"
