"""Held leases and waiters live through the failover of a shard: a crash, an orderly one, and a master that hangs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import pytest

from holdtight import LossReason
from holdtight.events import Event, FailedOver
from tests.faults.clients import Client, OpenClient, start, waiting
from tests.support.busy import Delay
from tests.support.clusters import Cluster, ClusterNode
from tests.support.processes import wait_for
from tests.support.servers import RunningServer
from tests.topology.many import all_renewed, give_back, take_many

LIMIT = 1.0
"""Seconds that the contract allows, from when the cluster's majority names the new master. It takes about 0.1."""


def crash(cluster: Cluster, master: ClusterNode) -> None:
    master.kill()


def hang(cluster: Cluster, master: ClusterNode) -> None:
    master.pause()


def order(cluster: Cluster, master: ClusterNode) -> None:
    cluster.failover(master)


FAILOVERS: dict[str, Callable[[Cluster, ClusterNode], None]] = {"crash": crash, "orderly": order, "hung": hang}


@pytest.fixture(params=FAILOVERS)
def fail_over(request: pytest.FixtureRequest) -> Callable[[Cluster, ClusterNode], None]:
    return FAILOVERS[request.param]


def use(client: Client, name: str) -> None:
    client.release(client.acquire(name, wait=20))


def keys_of(name: str) -> tuple[str, str]:
    return f"ht:{{{name}}}", f"ht:{{{name}}}:q"


def on_the_replica(cluster: Cluster, master: ClusterNode, name: str) -> RunningServer:
    """Waits until the replica has a lock, and its waiters."""
    replica = next(replicas[0] for each, replicas in cluster.map().values() if each is master)
    there = master.command("EXISTS", *keys_of(name))
    with replica.connect() as client:
        client.call("READONLY")
        wait_for(lambda: client.call("EXISTS", *keys_of(name)) == there, what="the replica to follow")
    return replica


def test_leases_and_waiters_live_through_a_failover(
    cluster: Cluster, open_client: OpenClient, fail_over: Callable[[Cluster, ClusterNode], None]
) -> None:
    old = cluster.masters[0]
    names = cluster.names_on(old)
    held, free, gone = next(names), next(names), next(names)
    elsewhere = cluster.name_on(cluster.masters[1])
    holder, other = (open_client(cluster.url, ttl=30, connect_timeout=30) for _ in range(2))
    heard: list[Event] = []
    holder.locks.events.subscribe(lambda event: heard.append(event) if isinstance(event, FailedOver) else None)
    kept, apart, lost = holder.acquire(held), holder.acquire(elsewhere), holder.acquire(gone)
    fence = kept.fence
    waiter = start(lambda: other.acquire(held, wait=60))
    wait_for(lambda: waiting(old, held) == 1)
    on_the_replica(cluster, old, held)
    old.command("DEL", keys_of(gone)[0])  # as if the replica had not received it: the holder does not know
    on_the_replica(cluster, old, gone)
    assert kept.nodes == (f"redis://127.0.0.1:{old.port}/0",)

    links = list(holder.locks.place.of_name(held)._links)
    assert links
    deadline = kept.tenure.deadline
    fail_over(cluster, old)  # nobody asks for anything: only the keeper has anything to do with the servers
    since = cluster.replaced(old)
    delay = Delay(os.getpid(), *(server.pid for server in cluster.living))
    delay.check(lambda: kept.tenure.deadline > deadline, since, within=LIMIT, what="a renewal at once")
    delay.check(lambda: lost.lost, since, within=LIMIT, what="the lost lease to be told")
    asked, since = [start(partial(use, client, free)) for client in (holder, other)], time.monotonic()
    delay = Delay(os.getpid(), *(server.pid for server in cluster.living))
    delay.check(lambda: all(each.done() for each in asked), since, within=LIMIT, what="a free name")
    for each in asked:
        each.result(0)
    assert lost.reason is LossReason.EXPIRED
    now = cluster.master_of(held)
    assert now is not old
    wait_for(lambda: kept.nodes == (f"redis://127.0.0.1:{now.port}/0",), what="the node to be known")
    assert (kept.lost, kept.fence, apart.lost) == (False, fence, False)
    wait_for(lambda: heard, what="the event")
    assert [(event.server, event.by) for event in heard if isinstance(event, FailedOver)] == [
        (f"redis://127.0.0.1:{old.port}/0", f"redis://127.0.0.1:{now.port}/0")
    ]
    wait_for(lambda: waiting(now, held) == 1, what="the waiter to be in line on the new master")
    assert not waiter.done()
    wait_for(lambda: all(link.fd < 0 for link in links), what="all connections to the old master to be closed")
    holder.release(kept)
    lease = waiter.result(10)
    assert lease.fence > fence
    other.release(lease)
    holder.release(apart)


@pytest.mark.long
def test_ten_thousand_leases_are_renewed_at_once(cluster: Cluster, open_client: OpenClient) -> None:
    """A third of them is kept at the server that is replaced."""
    client = open_client(cluster.url, ttl=60)
    old = cluster.masters[0]
    leases = take_many(client)
    place = client.locks.place
    there = [lease for lease in leases if place.of_name(lease.name).where[1] == old.port]
    replica = next(replicas[0] for each, replicas in cluster.map().values() if each is old)
    wait_for(lambda: replica.command("DBSIZE") >= len(there))
    deadlines = [lease.tenure.deadline for lease in there]
    cluster.failover(old)
    all_renewed(there, deadlines, cluster.replaced(old), *(server.pid for server in cluster.living))
    give_back(client, leases)
