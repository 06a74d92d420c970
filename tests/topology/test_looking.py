"""What operators see of locks with Sentinel and on a cluster: the command line, the lists behind it, and metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from holdtight import LockError, Locks, LossReason, NotSupported, Unavailable, history, metrics
from holdtight.cli.main import run_cli
from tests.faults.clients import COLOURS, Client, Colour, open_client, start
from tests.support.clusters import Cluster, slot_of
from tests.support.processes import wait_for
from tests.support.sentinels import Topology
from tests.support.servers import VALKEY_9, Flavour


@pytest.fixture(params=["sentinel", "cluster"])
def url(
    request: pytest.FixtureRequest,
    topology_of: Callable[[Flavour], Topology],
    cluster_of: Callable[[Flavour], Cluster],
) -> str:
    if request.param == "sentinel":
        topology = topology_of(VALKEY_9)
        topology.master.flushall()
        return topology.url
    cluster = cluster_of(VALKEY_9)
    cluster.flushall()
    return cluster.url


@pytest.fixture
def locks(url: str) -> Iterator[Locks]:
    with Locks(url, ttl=10) as locks:
        yield locks


def test_the_command_line_shows_and_releases_locks(
    url: str, locks: Locks, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDTIGHT_URL", url)

    def told(*words: str) -> Any:
        assert run_cli(words) == 0
        return json.loads(capsys.readouterr().out)

    held = {f"order:{number}": locks.lock(f"order:{number}", label="x").acquire() for number in range(9)}
    shared = locks.rwlock("page").read().acquire()
    with Locks(url, ttl=10) as other:
        waiter = start(lambda: other.lock("order:1").acquire(wait=60))
        wait_for(lambda: locks.lock("order:1").inspect().waiters, what="the waiter")
        assert sorted(each["name"] for each in told("ls", "--json")) == [*sorted(held), "page"]
        assert {each["name"] for each in told("ls", "--json", "order:[12]")} == {"order:1", "order:2"}
        assert len(told("show", "order:1", "--json")["waiters"]) == 1
        assert run_cli(("top",)) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in held)
        assert "held 10  waiting 1" in shown

        told("--json", "release", "order:1", "--force", "--reason", "hangs", "--by", "ops")
        lease = waiter.result(10)
        wait_for(lambda: held["order:1"].lost, what="the holder to be told")
        assert held["order:1"].reason is LossReason.FORCED
        assert [(each["name"], each["by"], each["reason"]) for each in told("audit", "--json")] == [
            ("order:1", "ops", "hangs")
        ]
        lease.release()
    for each in (*held.values(), shared):
        if not each.lost:
            each.release()


def test_metrics_count_and_say_whether_the_servers_can_be_reached(url: str, locks: Locks) -> None:
    registry = CollectorRegistry()
    metrics.install(locks, registry=registry)
    for number in range(9):  # on all shards
        with locks.lock(f"thing:{number}"):
            pass
    metrics.flush()
    labels = {"kind": "exclusive", "lock": "other"}
    assert registry.get_sample_value("redis_lock_acquire_success_total", labels) == 9
    assert registry.get_sample_value("redis_node_health", {"node": locks.place.display}) == 1


def test_a_shard_that_cannot_be_reached_shows_in_the_health_of_the_cluster_until_it_was_replaced(
    cluster: Cluster,
) -> None:
    registry = CollectorRegistry()
    with Locks(cluster.url, ttl=10, connect_timeout=30) as locks:
        metrics.install(locks, registry=registry)
        old = cluster.masters[0]
        name = cluster.name_on(old)

        def health() -> float | None:
            metrics.flush()
            return registry.get_sample_value("redis_node_health", {"node": locks.place.display})

        with locks.lock(name):
            pass
        assert health() == 1
        old.kill()
        asked = start(lambda: locks.lock(name).acquire(wait=30))
        wait_for(lambda: health() == 0, what="the dead shard to show")
        asked.result(30).release()
        wait_for(lambda: health() == 1, what="the new master to count")


def test_history_is_written_with_sentinel_and_refused_on_a_cluster(
    url: str, locks: Locks, topology_of: Callable[[Flavour], Topology]
) -> None:
    if "cluster" in url:
        with pytest.raises(NotSupported, match="does not support a cluster"):
            history.install(locks)
        return
    history.install(locks)
    with locks.lock("thing"):
        pass
    history.flush()
    assert topology_of(VALKEY_9).master.command("XLEN", "ht:history") == 2


@pytest.fixture
def cluster(cluster_of: Callable[[Flavour], Cluster]) -> Iterator[Cluster]:
    found = cluster_of(VALKEY_9)
    found.flushall()
    yield found
    found.heal()


def names_of(client: Client, names: list[str]) -> None:
    """Adds the names that `list` finds, until it raises."""
    if isinstance(client.locks, Locks):
        names.extend(info.name for info in client.locks.list())
        return

    async def collect() -> None:
        async for info in client.locks.list():
            names.append(info.name)  # noqa: PERF401 (what was found before an error counts)

    client.call(collect)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_list_shows_the_locks_of_all_masters_that_can_be_asked_and_then_names_the_others(
    cluster: Cluster, colour: Colour
) -> None:
    for server in cluster.servers:
        server.command("CONFIG", "SET", "cluster-require-full-coverage", "no")
    dead, *others = cluster.masters
    with closing(open_client(colour, cluster.url, ttl=60, connect_timeout=1)) as client:
        held = [client.acquire(cluster.name_on(master)) for master in (dead, *others)]
        replica = next(replicas[0] for each, replicas in cluster.map().values() if each is dead)
        replica.kill()
        dead.kill()
        found: list[str] = []
        with pytest.raises(Unavailable, match=f"redis://127.0.0.1:{dead.port}/0: .*refused") as caught:
            names_of(client, found)
        assert sorted(found) == sorted(lease.name for lease in held[1:])
        assert not any(f"redis://127.0.0.1:{master.port}" in str(caught.value) for master in others)
        for lease in held:
            with suppress(LockError):
                client.release(lease)


@pytest.mark.parametrize("colour", COLOURS)
def test_a_lock_whose_slot_moves_while_the_list_is_read_is_not_left_out(cluster: Cluster, colour: Colour) -> None:
    with closing(open_client(colour, cluster.url, ttl=60)) as client:
        place = client.locks.place
        held = [client.acquire(cluster.name_on(master)) for master in cluster.masters]
        first, *_, last = (next(at for at in cluster.masters if at.port == each.where[1]) for each in place.masters())
        name = next(lease.name for lease in held if cluster.master_of(lease.name) is last)
        listing = client.locks._listing("*")
        found = client.call(client.locks.run, listing.page(), "")
        assert name not in [info.name for info in found]
        with cluster.moving(slot_of(name), first):
            pass
        while not listing.done:
            found += client.call(client.locks.run, listing.page(), "")
        assert sorted(info.name for info in found) == sorted(lease.name for lease in held)
        for lease in held:
            client.release(lease)
