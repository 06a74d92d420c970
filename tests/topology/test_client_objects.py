"""Clients of redis-py and valkey-py that follow Sentinel, read as settings; and the drop-in with them."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import closing
from typing import Any

import pytest
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel
import valkey.asyncio.cluster
import valkey.asyncio.sentinel
import valkey.cluster
import valkey.sentinel

from holdtight import Locks
from holdtight.compat.redis_py import AsyncLock, Lock
from tests.faults.clients import COLOURS, Colour, open_client
from tests.support.clusters import Cluster
from tests.support.processes import wait_for
from tests.support.sentinels import SERVICE, Topology

MANAGERS: list[Any] = [
    redis.sentinel.Sentinel,
    redis.asyncio.sentinel.Sentinel,
    valkey.sentinel.Sentinel,
    valkey.asyncio.sentinel.Sentinel,
]


def addresses(topology: Topology) -> list[tuple[str, int]]:
    return [("127.0.0.1", sentinel.port) for sentinel in topology.sentinels]


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda cls: cls.__module__)
def test_a_client_of_master_for_gives_its_settings_and_is_not_used(manager: Any, topology: Topology) -> None:
    sentinel = manager(addresses(topology))
    given = sentinel.master_for(SERVICE, client_name="theirs")
    with Locks(given) as locks, locks.lock("x", wait=5) as lease:
        assert lease.nodes == (f"redis://127.0.0.1:{topology.master.port}/0",)
        assert given.connection_pool.connection_kwargs["client_name"] == "theirs"
        with pytest.raises(TypeError, match="a Sentinel names many masters"):
            Locks(sentinel)
        with pytest.raises(ValueError, match="a client for replicas cannot hold locks"):
            Locks(sentinel.slave_for(SERVICE))


CLUSTERS: list[Any] = [
    redis.cluster.RedisCluster,
    redis.asyncio.cluster.RedisCluster,
    valkey.cluster.ValkeyCluster,
    valkey.asyncio.cluster.ValkeyCluster,
]


@pytest.mark.parametrize("kind", CLUSTERS, ids=lambda cls: cls.__module__)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_client_of_a_cluster_gives_its_settings_and_is_not_used(kind: Any, cluster: Cluster, colour: Colour) -> None:
    async def make() -> Any:
        """Those of asyncio are made on a loop."""
        return kind(host="127.0.0.1", port=cluster.masters[0].port)

    given = (
        asyncio.run(make()) if "asyncio" in kind.__module__ else kind(host="127.0.0.1", port=cluster.masters[0].port)
    )
    with closing(open_client(colour, given, ttl=10)) as client:
        for master in cluster.masters:
            name = cluster.name_on(master)
            lease = client.acquire(name, wait=10)
            assert lease.nodes == (f"redis://127.0.0.1:{master.port}/0",)
            client.release(lease)
    if "asyncio" not in kind.__module__:
        given.close()


def test_the_drop_in_follows_a_failover(topology: Topology) -> None:
    blocking = MANAGERS[0](addresses(topology)).master_for(SERVICE)
    with Lock(blocking, "thing", timeout=10, blocking_timeout=5):
        assert topology.master.keys() == ["thing"]
    old = topology.failover()
    wait_for(lambda: not topology.ours(old))
    with Lock(blocking, "thing", timeout=10, blocking_timeout=5):
        assert topology.master.keys() == ["thing"]
    blocking.close()


def test_the_asyncio_drop_in_follows_a_failover(topology: Topology) -> None:
    async def main() -> None:
        client = MANAGERS[1](addresses(topology)).master_for(SERVICE)
        async with AsyncLock(client, "thing", timeout=10, blocking_timeout=5):
            assert topology.master.keys() == ["thing"]
        old = topology.failover()
        wait_for(lambda: not topology.ours(old))
        async with AsyncLock(client, "thing", timeout=10, blocking_timeout=5):
            assert topology.master.keys() == ["thing"]
        await client.aclose()

    asyncio.run(main())


def test_the_scout_of_the_drop_in_ends_when_its_client_is_dropped(topology: Topology) -> None:
    others = set(threading.enumerate())
    # Clients with equal settings share a scout: one of an earlier test may still be there, uncollected.
    client = MANAGERS[0](addresses(topology)).master_for(SERVICE, client_name="of-this-test")
    with Lock(client, "thing", timeout=10, blocking_timeout=5):
        (scout,) = [each for each in set(threading.enumerate()) - others if each.name == "holdtight-scout"]
    client.close()
    del client
    gc.collect()
    wait_for(lambda: not scout.is_alive(), what="the scout to end")
