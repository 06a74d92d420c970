"""Work goes on under failovers and resharding: updates that claim first lose nothing, fences are unique, and the times
of the contract hold.

Replication is asynchronous, so two may hold a lock after a failover: such overlaps are counted and printed, not
excluded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count, islice
from pathlib import Path

import pytest

from holdtight.base.clock import boottime
from tests.support.clusters import Cluster, ClusterNode, slot_of
from tests.support.servers import VALKEY_9
from tests.topology.load import Load
from tests.topology.spans import Change, Meanwhile, Spans, changed

ROUNDS = 2
NAMES_PER_SHARD = 2
KEPT_PER_SHARD = 3
LATE = 10


def in_slot(slot: int, prefix: str) -> Iterator[str]:
    return (name for name in (f"{prefix}:{number}" for number in count()) if slot_of(name) == slot)


# What happens to the shard, or to the slot, of one name.


def crash(cluster: Cluster, name: str, meanwhile: Meanwhile) -> Change:
    old = cluster.master_of(name)
    old.kill()
    meanwhile()
    return changed(lambda: old not in cluster.masters)


def hang(cluster: Cluster, name: str, meanwhile: Meanwhile) -> Change:
    old = cluster.master_of(name)
    old.pause()
    meanwhile()
    return changed(lambda: old not in cluster.masters)


def order(cluster: Cluster, name: str, meanwhile: Meanwhile) -> Change:
    old, [replica] = cluster.serving(slot_of(name))
    taken_over = cluster.taken_over_by(replica)
    meanwhile()
    change = changed(lambda: old not in cluster.masters, taken_over)
    change.left = lambda: not [each for each in cluster.ours(old) if not each.endswith("-scout")]
    return change


def move(cluster: Cluster, name: str, meanwhile: Meanwhile, pauses: list[float], stall: float) -> Change:
    """A key after each pause, as far as there are keys, and at last those that are left."""
    slot = slot_of(name)
    asked = boottime()
    with cluster.moving(slot, another(cluster, name)) as moving:
        meanwhile()
        for pause in pauses:
            time.sleep(pause)
            moving.move(*moving.keys()[:1])
        time.sleep(stall)
    return Change(asked, boottime(), moved=name)


def migrate(cluster: Cluster, name: str, meanwhile: Meanwhile) -> Change:
    asked = boottime()
    meanwhile()
    cluster.migrate(slot_of(name), another(cluster, name))
    return Change(asked, boottime(), moved=name)


def another(cluster: Cluster, name: str) -> ClusterNode:
    source = cluster.master_of(name)
    return next(each for each in cluster.masters if each is not source)


FAILOVERS: dict[str, Callable[[Cluster, str, Meanwhile], Change]] = {"crash": crash, "orderly": order, "hung": hang}
FAILOVERS["lagging"] = crash
MOVES: dict[str, Callable[[Cluster, str, Meanwhile], Change]] = {
    "slow": partial(move, pauses=6 * [0.1], stall=0.0),
    "stalled": partial(move, pauses=[0.3], stall=0.5),
    "migrateslots": migrate,
}
LONG_STALL = partial(move, pauses=[2.0], stall=2.0)
TTLS = {"orderly": 3.0, "lagging": 4.5, "slow": 3.0, "stalled": 3.0, "migrateslots": 3.0}
"""A name whose release was lost is blocked for the rest of the ttl. A lease must outlast a crash: 10 s."""
ALL = pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(10 * ROUNDS, marks=pytest.mark.long)])


def load_on(cluster: Cluster, folder: Path, what: str) -> tuple[Load, str]:
    """The load, and the name that the fault is about."""
    masters = cluster.masters
    names = [name for each in masters for name in islice(cluster.names_on(each), NAMES_PER_SHARD)]
    kept = [name for each in masters for name in islice(cluster.names_on(each, "kept"), KEPT_PER_SHARD)]
    kept += islice(in_slot(slot_of(names[0]), "kept"), 2)  # one for each colour
    load = Load(folder / "counters", cluster.url, cluster.url, ttl=TTLS.get(what, 10.0), names=names, kept=kept)
    return load, names[0]


def begin_to_lag(cluster: Cluster, name: str, load: Load, late: Iterator[str]) -> Callable[[], object]:
    """The replica receives nothing more, and ten leases are taken that it does not have. Returns what mends it."""
    _, [replica] = cluster.serving(slot_of(name))
    replica.command("CONFIG", "SET", "masteruser", "nobody")
    replica.command("CONFIG", "SET", "masterauth", "nothing")
    replica.command("CLIENT", "KILL", "TYPE", "MASTER")
    load.keep_more(list(islice(late, LATE)))

    def mend() -> None:
        replica.command("CONFIG", "SET", "masteruser", "")
        replica.command("CONFIG", "SET", "masterauth", "")

    return mend


@ALL
@pytest.mark.parametrize("what", FAILOVERS)
def test_failovers_lose_no_increment_and_give_no_fence_twice(
    cluster: Cluster, tmp_path: Path, what: str, rounds: int
) -> None:
    load, name = load_on(cluster, tmp_path, what)
    free, late = cluster.names_on(cluster.master_of(name), "free"), cluster.names_on(cluster.master_of(name), "late")
    with Spans(load, cluster.url, lambda: [each.pid for each in cluster.living]) as spans:
        for round_ in range(rounds):
            if round_:
                cluster.heal()
            load.go_on()
            with ExitStack() as stack:
                if what == "lagging":
                    stack.callback(begin_to_lag(cluster, name, load, late))
                old = cluster.master_of(name)
                concerned = {each.name for each in load.kept if cluster.master_of(each.name) is old}
                spans.measure(partial(FAILOVERS[what], cluster, name), free, concerned.__contains__)
            load.go_on()
    spans.judge(f"cluster, {what}", rounds)
    if what == "lagging":
        lost = sum(each.lost for each in load.held)
        assert lost >= LATE * rounds, "grants that the replica had not are lost, and told"


@ALL
@pytest.mark.parametrize("what", MOVES)
def test_moves_lose_no_increment_and_no_lease(cluster: Cluster, tmp_path: Path, what: str, rounds: int) -> None:
    if what == "migrateslots" and cluster.flavour is not VALKEY_9:
        pytest.skip("only Valkey 9 has CLUSTER MIGRATESLOTS")
    load, name = load_on(cluster, tmp_path, what)
    slot = slot_of(name)
    free = in_slot(slot, "free")
    happen = LONG_STALL if what == "stalled" and rounds > ROUNDS else MOVES[what]
    with Spans(load, cluster.url, lambda: [each.pid for each in cluster.living]) as spans:
        for _ in range(rounds):
            load.go_on()
            spans.measure(partial(happen, cluster, name), free, lambda each: slot_of(each) == slot)
    spans.judge(f"cluster, {what}", rounds)
    assert not [each for each in load.held if each.lost], "a move loses no lease"
    assert not load.overlaps()
