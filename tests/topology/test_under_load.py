"""Failovers under load of both colours: nothing is lost where fences are checked, overlaps are counted, and the times
of the contract hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.support.processes import wait_for
from tests.support.sentinels import Topology
from tests.support.servers import RunningServer
from tests.topology.load import Load
from tests.topology.spans import Change, Meanwhile, Spans, changed

ROUNDS = 2
NOWHERE = "1"
LATE = [f"late:{number}" for number in range(10)]
TTLS = {"orderly": 3.0, "lagging": 4.5}
"""A name whose release was lost is blocked for the rest of the ttl. A lease must outlast a crash."""


def named(topology: Topology, old: RunningServer) -> Change:
    return changed(lambda: any(each.named() != old.port for each in topology.sentinels))


def crash(topology: Topology, meanwhile: Meanwhile) -> Change:
    old = topology.master
    old.kill()
    meanwhile()
    return named(topology, old)


def hang(topology: Topology, meanwhile: Meanwhile) -> Change:
    old = topology.master
    old.pause()
    meanwhile()
    return named(topology, old)


def order(topology: Topology, meanwhile: Meanwhile) -> Change:
    old = topology.master
    meanwhile()
    change = changed(topology.ordering(old))
    change.left = lambda: not topology.ours(old)
    return change


FAULTS: dict[str, Callable[[Topology, Meanwhile], Change]] = {
    "crash": crash,
    "orderly": order,
    "hung": hang,
    "lagging": crash,
}


@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(10 * ROUNDS, marks=pytest.mark.long)])
def test_failovers_lose_no_increment_and_give_no_fence_twice(
    topology: Topology, tmp_path: Path, what: str, rounds: int
) -> None:
    load = Load(tmp_path / "counters", topology.url, topology.url, ttl=TTLS.get(what, 10.0))
    free = (f"free:{number}" for number in count())
    with Spans(load, topology.url, lambda: [each.pid for each in topology.servers]) as spans:
        for round_ in range(rounds):
            if round_:
                topology.heal()
            load.go_on()
            if what == "lagging":  # the replicas receive nothing from now on
                for replica in topology.replicas:
                    replica.command("REPLICAOF", "127.0.0.1", NOWHERE)
                load.keep_more(LATE)
            spans.measure(partial(FAULTS[what], topology), free, lambda name: True)
            load.go_on()
    spans.judge(what, rounds)
    if what == "lagging":
        lost = sum(each.lost for each in load.held)
        assert lost >= len(LATE) * rounds, "grants that no replica had are lost, and told"


def test_clients_that_stay_until_something_fails_share_locks_with_others(topology: Topology, tmp_path: Path) -> None:
    """The same load, of which the blocking half is not told: it goes to the master's own address."""
    topology.periods(publish_period=2000)
    with Load(tmp_path / "counters", topology.master.url, topology.url, ttl=5.0) as load:
        load.go_on()
        topology.failover()
        wait_for(lambda: load.overlaps(), within=20, what="two holders of one lock")
    assert load.counted() == load.increments, "the fence protects even them"
