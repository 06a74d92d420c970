"""Shards are independent: one that stands still delays nobody else. Forks, closed clients, and wrong targets."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any

import pytest
import redis
import valkey

from holdtight import AsyncLocks, Locks, LockTimeout, LossReason, NotSupported, Unavailable
from holdtight.base.values import LockInfo, Owner
from holdtight.stores.redis import keys
from holdtight.stores.redis.slots import slot_of as slot_of_key
from holdtight.stores.times import CLAIM_MS
from tests.faults.clients import Client, Colour, OpenClient, release_lost, start, waiting
from tests.support.busy import Delay
from tests.support.clusters import Cluster, ClusterNode
from tests.support.processes import StartChild, wait_for
from tests.support.servers import RunningServer

PAIR_LIMIT = 1.0
"""Far above what a pair takes, and far below what a shard that stands still would cost."""
LEAST_P99 = 0.002
PAIRS = 200


def serves_all_slots(server: RunningServer) -> bool:
    """In its own eyes. Until then it would refuse everything if it required full coverage."""
    return "cluster_slots_ok:16384" in str(server.command("CLUSTER", "INFO"))


def pair(client: Client, name: str, pids: list[int]) -> float:
    """The seconds that a pair takes, without those for which the machine ran other programs."""
    delay, since = Delay(os.getpid(), *pids), time.monotonic()
    client.release(client.acquire(name, wait=5))
    took = time.monotonic() - since - delay.seconds()
    time.sleep(0.002)
    return took


def p99(pairs: list[float]) -> float:
    return sorted(pairs)[int(len(pairs) * 0.99)]


@contextmanager
def standing_still(cluster: Cluster, master: ClusterNode) -> Iterator[None]:
    """A shard without its replica, which would take over. The others go on: what is examined is the client."""
    replica = next(replicas[0] for each, replicas in cluster.map().values() if each is master)
    for each in cluster.servers:
        each.command("CONFIG", "SET", "cluster-require-full-coverage", "no")
    replica.pause()
    master.pause()
    try:
        yield
    finally:
        master.resume()
        replica.resume()
        wait_for(lambda: all(serves_all_slots(each) for each in cluster.servers), what="the cluster to be whole again")
        for each in cluster.servers:
            each.command("CONFIG", "SET", "cluster-require-full-coverage", "yes")


@pytest.mark.parametrize(("seconds", "ttl"), [(4.0, 3.0), pytest.param(10.0, 1.5, marks=pytest.mark.long)])
def test_a_shard_that_stands_still_delays_nobody_else(
    cluster: Cluster, open_client: OpenClient, seconds: float, ttl: float
) -> None:
    stopped, other = cluster.masters[:2]
    here, there = cluster.names_on(stopped), cluster.names_on(other)
    client = open_client(cluster.url, ttl=3)
    mine = client.acquire(next(here), ttl=1.5)
    others = [client.acquire(next(there), ttl=ttl) for _ in range(20)]
    free_here, free_there = next(here), next(there)
    client.release(client.acquire(free_here))
    before = [pair(client, free_there, [other.pid]) for _ in range(PAIRS)]
    with standing_still(cluster, stopped):
        begun = time.monotonic()
        unavailable = start(partial(client.acquire, free_here, wait=1))
        told: list[float] = []
        mine.tenure.on_loss(lambda: told.append(time.monotonic()))
        during: list[float] = []
        while time.monotonic() < begun + seconds:
            during.append(pair(client, free_there, [other.pid]))
            assert not any(lease.lost for lease in others)
            assert unavailable.done() or time.monotonic() - begun < 4, "as late as on one server"
        with pytest.raises(Unavailable):
            unavailable.result(0)
        print(f"p99 of pairs: {p99(before) * 1000:.2f} ms before, {p99(during) * 1000:.2f} ms meanwhile")
        assert max(during) < PAIR_LIMIT
        assert p99(during) < 10 * max(p99(before), LEAST_P99)
        assert mine.lost
        assert mine.reason in (LossReason.UNREACHABLE, LossReason.EXPIRED)
        assert told[0] < begun + 1.5 + PAIR_LIMIT, "the loss is told when the ttl ends"
    release_lost(client, mine)
    for lease in others:
        client.release(lease)
    client.release(client.acquire(free_here, wait=15))


class Waiter:
    """Waits for a name while it holds another lock in a block, so that it looks for deadlocks all the time. What it
    publishes for its grant lies on the server `there`."""

    def __init__(self, client: Client, colour: Colour, mine: str, name: str, there: ClusterNode) -> None:
        self._locks, self._mine, self._name = client.locks, client.locks.lock(mine), client.locks.lock(name, wait=30)
        self._there = there
        self.taken = start(lambda: client.call(self._take if colour == "sync" else self._take_in_a_task))

    def _lies_there(self, owner: Owner) -> bool:
        found: int = self._locks.place.at(slot_of_key(keys.waits("ht", owner))).where[1]
        return found == self._there.port

    def _take(self) -> float:
        while True:
            with self._mine as own:
                if self._lies_there(own.tenure.owner):
                    with self._name:
                        return time.monotonic()

    async def _take_in_a_task(self) -> float:
        while True:
            async with self._mine as own:
                if self._lies_there(own.tenure.owner):
                    async with self._name:
                        return time.monotonic()


def test_a_waiter_hears_its_bell_while_it_looks_for_deadlocks_on_a_shard_that_stands_still(
    cluster: Cluster, open_client: OpenClient, colour: Colour
) -> None:
    """It must confirm within the claim window."""
    stopped, other = cluster.masters[:2]
    names = cluster.names_on(other)
    mine, name = next(names), next(names)
    holder, client = open_client(cluster.url, ttl=60), open_client(cluster.url, ttl=60, deadlock_after=0)
    for each in (stopped, other):
        client.release(client.acquire(cluster.name_on(each)))
    with standing_still(cluster, stopped):
        for _ in range(4):
            lease = holder.acquire(name, wait=5)
            waiter = Waiter(client, colour, mine, name, stopped)
            wait_for(lambda: waiting(other, name) == 1)
            delay, since = Delay(os.getpid(), other.pid), time.monotonic()
            holder.release(lease)
            took = waiter.taken.result(20) - since - delay.seconds()
            assert took < CLAIM_MS / 1000
        assert client.locks.deadlocks.failures > 0, "it could not look"


def test_a_holder_whose_record_lies_on_a_shard_that_stands_still_is_soon_left_unnamed(
    cluster: Cluster, open_client: OpenClient
) -> None:
    stopped, other = cluster.masters[:2]
    name = cluster.name_on(other)
    holder = open_client(cluster.url, ttl=60)
    while cluster.serving(holder.locks.place.record_slot)[0] is not stopped:
        holder = open_client(cluster.url, ttl=60)
    client = open_client(cluster.url, ttl=60)
    lease = holder.acquire(name)
    for each in (stopped, other):
        client.release(client.acquire(cluster.name_on(each, "mine")))
    with standing_still(cluster, stopped):
        for wait in (0, 0.1):
            delay, since = Delay(os.getpid(), other.pid), time.monotonic()
            with pytest.raises(LockTimeout) as timeout:
                client.acquire(name, wait=wait)
            assert time.monotonic() - since - delay.seconds() < wait + 0.6
            assert timeout.value.holder is not None
            assert timeout.value.holder.pid is None
    holder.release(lease)


def test_several_locks_lie_on_several_shards(cluster: Cluster, open_client: OpenClient) -> None:
    names = [cluster.name_on(master, "part") for master in cluster.masters]
    client, other = open_client(cluster.url), open_client(cluster.url)
    lease = client.call(client.locks.multi(*names).acquire)
    assert sorted(lease.fences) == sorted(names)
    assert lease.nodes == tuple(f"redis://127.0.0.1:{cluster.master_of(name).port}/0" for name in sorted(names))
    assert all(other.try_acquire(name) is None for name in names)
    client.release(lease)
    for name in names:
        found = other.try_acquire(name)
        assert found is not None
        other.release(found)


def test_all_shards_are_listed(cluster: Cluster, open_client: OpenClient) -> None:
    client = open_client(cluster.url)
    leases = [client.acquire(name) for master in cluster.masters for name in islice(cluster.names_on(master), 3)]

    async def all_of(found: object) -> list[LockInfo]:
        return [info async for info in found]  # type: ignore[attr-defined]

    blocking = isinstance(client.locks, Locks)
    infos = list(client.locks.list()) if blocking else client.call(all_of, client.locks.list())
    assert sorted(info.name for info in infos) == sorted(lease.name for lease in leases)
    assert {info.holders[0].pid for info in infos} == {os.getpid()}
    for lease in leases:
        client.release(lease)


def fork_and_lock(url: str) -> None:
    with Locks(url, ttl=5) as locks, locks.lock("parents", wait=5) as lease:
        child = os.fork()
        if not child:
            with locks.lock("childs", wait=5) as own:
                print("child", lease.lost, own.lost, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        lease.check()
        print("parent", lease.lost, flush=True)


def test_a_forked_child_has_connections_of_its_own(cluster: Cluster, start_child: StartChild) -> None:
    child = start_child(fork_and_lock, cluster.url)
    child.expect("child True False")
    child.expect("parent False")


def test_a_client_that_is_dropped_leaves_nothing(cluster: Cluster) -> None:
    locks = Locks(cluster.url)
    for master in cluster.masters:
        locks.lock(cluster.name_on(master)).acquire().release()
    del locks
    with pytest.warns(ResourceWarning, match="dropped without being closed"):
        gc.collect()
    wait_for(lambda: not any(cluster.ours(each) for each in cluster.servers), within=20, what="all to be closed")


def test_a_cluster_that_cannot_be_reached_is_unavailable_in_time() -> None:
    with Locks("redis+cluster://127.0.0.1:1,127.0.0.1:2") as locks:
        begun = time.monotonic()
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
            locks.lock("thing", wait=1).acquire()
        assert time.monotonic() - begun < 6


@pytest.mark.parametrize("opened", [Locks, AsyncLocks])
def test_wrong_targets_are_refused_before_anything_is_sent(opened: type) -> None:
    with pytest.raises(ValueError, match="database 0 only") as caught:
        opened("redis+cluster://:secret@127.0.0.1/1")
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="a host is missing"):
        opened("redis+cluster://")
    with pytest.raises(NotSupported, match="cannot be a node of a quorum"):
        opened(["redis://a", "redis+cluster://b", "redis://c"])
    with pytest.raises(ValueError, match="sentinel_credentials"):
        opened("redis+cluster://127.0.0.1", sentinel_credentials="secret")


@pytest.mark.parametrize("make", [redis.RedisCluster, valkey.ValkeyCluster], ids=lambda cls: cls.__module__)
def test_a_cluster_client_of_another_library_is_a_target(cluster: Cluster, make: Any) -> None:
    client = make(host="127.0.0.1", port=cluster.servers[0].port)
    try:
        with Locks(client) as locks:
            for master in cluster.masters:
                with locks.lock(cluster.name_on(master), wait=5) as lease:
                    assert lease.nodes == (f"redis://127.0.0.1:{master.port}/0",)
    finally:
        client.close()
