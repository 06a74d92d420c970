"""Waiters of one client that pass a lock along (`cohort=True`), on Sentinel and on a cluster: their line outlives a
failover and the move of its slot."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from itertools import pairwise

from holdtight.grants.lease import BaseLease
from tests.faults.clients import Client, OpenClient, start, waiting
from tests.support.clusters import Cluster, slot_of
from tests.support.processes import wait_for
from tests.support.sentinels import Topology
from tests.support.servers import RunningServer

FEW = 4


def take(client: Client, name: str) -> BaseLease:
    return client.acquire(name, cohort=True, wait=60)


def waits_inside(client: Client, name: str, count: int) -> bool:
    return len(client.locks.cohort.waiters(name, client.locks)) == count


def line_up(client: Client, name: str, master: RunningServer) -> list[Future[BaseLease]]:
    """The first of them waits at the server, once the window of the holder is over, the others behind it."""
    line = [start(partial(take, client, name))]
    wait_for(lambda: waiting(master, name) == 1)
    for behind in range(1, FEW):
        line.append(start(partial(take, client, name)))
        wait_for(partial(waits_inside, client, name, behind))
    return line


def served_in_turn(client: Client, lease: BaseLease, line: list[Future[BaseLease]]) -> None:
    leases = [lease]
    for number, member in enumerate(line):
        assert not any(each.done() for each in line[number:])
        client.release(leases[-1])
        leases.append(member.result(60))
    client.release(leases[-1])
    assert all(earlier.fence < later.fence for earlier, later in pairwise(leases))


def has_followed(lease: BaseLease, master: RunningServer) -> None:
    """Waits until the client has renewed its lease there: a release before that may be refused by the old master."""
    wait_for(lambda: lease.nodes == (f"redis://127.0.0.1:{master.port}/0",), what="a renewal at the new master")


def test_a_line_lives_through_a_failover_of_sentinel(topology: Topology, open_client: OpenClient) -> None:
    client, master = open_client(topology.url, ttl=30), topology.master
    lease = take(client, "a")
    line = line_up(client, "a", master)
    for replica in topology.replicas:
        replica.wait_for("EXISTS", "ht:{a}", "ht:{a}:q", be=2)
    master.kill()
    wait_for(lambda: any(each.named() != master.port for each in topology.sentinels), what="another master")
    has_followed(lease, topology.master)
    wait_for(lambda: waiting(topology.master, "a") == 1, what="the leader to be in line on the new master")
    served_in_turn(client, lease, line)


def test_a_line_lives_through_a_failover_of_its_shard(cluster: Cluster, open_client: OpenClient) -> None:
    client, master = open_client(cluster.url, ttl=30), cluster.masters[0]
    name = cluster.name_on(master)
    lease = take(client, name)
    line = line_up(client, name, master)
    now = cluster.failover(master)  # most nodes may go on naming the old one for a moment
    has_followed(lease, now)
    wait_for(lambda: waiting(now, name) == 1, what="the leader to be in line on the new master")
    served_in_turn(client, lease, line)


def test_a_line_follows_its_slot(cluster: Cluster, open_client: OpenClient) -> None:
    client, (source, target) = open_client(cluster.url, ttl=30), cluster.masters[:2]
    name = cluster.name_on(source)
    lease = take(client, name)
    line = line_up(client, name, source)
    with cluster.moving(slot_of(name), target):
        pass
    wait_for(lambda: waiting(target, name) == 1, what="the leader to be in line at the other server")
    served_in_turn(client, lease, line)
