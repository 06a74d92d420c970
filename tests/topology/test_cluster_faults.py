"""What is lost or goes wrong on the way to one server of a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from holdtight import Unavailable
from holdtight.base.clock import boottime
from tests.faults.clients import Colour, OpenClient, start, waiting
from tests.faults.clients import open_client as open_another
from tests.support.busy import Delay
from tests.support.clusters import Cluster, ClusterNode, slot_of
from tests.support.processes import wait_for
from tests.support.proxy import Proxy


def endpoints(node: ClusterNode) -> set[int]:
    return {int(each[1]) for _, _, *nodes in node.command("CLUSTER", "SLOTS") for each in nodes}


@contextmanager
def behind_a_proxy(cluster: Cluster, node: ClusterNode) -> Iterator[Proxy]:
    """All nodes name the proxy in place of this one. Nothing else may be asked of `cluster` meanwhile."""
    others = [each for each in cluster.servers if each is not node]
    with Proxy(node.port) as proxy:
        node.command("CONFIG", "SET", "cluster-announce-port", proxy.port)
        try:
            wait_for(lambda: all(proxy.port in endpoints(each) for each in others), what="the others to hear of it")
            yield proxy
        finally:
            node.command("CONFIG", "SET", "cluster-announce-port", 0)
            wait_for(lambda: all(proxy.port not in endpoints(each) for each in others), what="the true port")


@pytest.mark.parametrize("what", ["reply", "request"])
def test_a_lost_request_or_reply_costs_a_broken_connection_and_no_grant(
    cluster: Cluster, open_client: OpenClient, what: str
) -> None:
    node = cluster.masters[0]
    name, before = cluster.name_on(node), cluster.name_on(node, "before")
    url = cluster.url
    with behind_a_proxy(cluster, node) as proxy:
        client = open_client(url, ttl=30)
        client.release(client.acquire(before, wait=10))
        lose = proxy.swallow_reply if what == "reply" else proxy.swallow_request
        key = f"ht:{{{name}}}".encode()
        lost = lose(key, cut=True)
        lease = client.acquire(name, wait=20)
        lost.wait()
        assert node.keys(key.decode()) == [key.decode()]
        lost = lose(key, cut=True)
        with suppress(Unavailable):
            client.release(lease)
        lost.wait()
        other = open_client(url)
        other.release(other.acquire(name, wait=10))
        waiter = None
        held = other.acquire(name)
        waiter = start(lambda: client.acquire(name, wait=30))
        wait_for(lambda: waiting(node, name) == 1)
        lost = lose(key, cut=True)
        with suppress(Unavailable):
            other.release(held)
        lost.wait()
        client.release(waiter.result(20))


def test_a_client_that_is_closed_while_it_waits_leaves_nothing(
    cluster: Cluster, open_client: OpenClient, colour: Colour
) -> None:
    node = cluster.masters[0]
    name = cluster.name_on(node)
    holder, other = open_client(cluster.url, ttl=30), open_another(colour, cluster.url, ttl=30)
    held = holder.acquire(name)
    waiter = start(lambda: other.acquire(name, wait=30))
    try:
        wait_for(lambda: waiting(node, name) == 1)
        end = other.locks.close if colour == "sync" else other.locks.aclose
        other.call(end)
        with pytest.raises(RuntimeError, match="clos"):
            waiter.result(30)  # before the test's loop ends, in which it waits
    finally:
        other.close()
    wait_for(lambda: waiting(node, name) == 0, what="its place in line to be given up")
    holder.release(held)
    holder.release(holder.acquire(name))


def test_servers_that_send_a_request_to_each_other_are_asked_a_few_times_and_no_more(
    cluster: Cluster, open_client: OpenClient
) -> None:
    one, other = cluster.masters[:2]
    name, before = cluster.name_on(one), cluster.name_on(one, "before")
    client = open_client(cluster.url, ttl=30, connect_timeout=1)
    client.release(client.acquire(before))
    slot = slot_of(name)
    one.command("CLUSTER", "SETSLOT", slot, "NODE", other.id)  # only this one believes it
    try:
        assert one.command("CLUSTER", "KEYSLOT", name) == slot
        with pytest.raises(Unavailable, match="redirected more than 5 times"):
            client.acquire(name)
        begun = time.monotonic()
        with pytest.raises(Unavailable):
            client.acquire(name, wait=1)
        assert time.monotonic() - begun < 20
    finally:
        one.command("CLUSTER", "SETSLOT", slot, "NODE", one.id)
    client.release(client.acquire(name, wait=20))


@contextmanager
def one_more_master(cluster: Cluster) -> Iterator[tuple[ClusterNode, Proxy]]:
    """A server without slots, which the others know by its proxy."""
    with ExitStack() as stack:
        node: Any = cluster._begin()
        proxy = stack.enter_context(Proxy(node.port))
        node.command("CONFIG", "SET", "cluster-announce-port", proxy.port)
        first = cluster.servers[0]
        node.command("CLUSTER", "MEET", "127.0.0.1", first.port, cluster._bus_port(first))
        everybody = [*cluster.servers, node]
        wait_for(lambda: all(len(cluster.known_by(each)) == len(everybody) for each in everybody), what="nodes to meet")
        wait_for(lambda: "cluster_state:ok" in str(node.command("CLUSTER", "INFO")), what="it to be ready")
        try:
            yield node, proxy
        finally:
            identity = node.id
            node.kill()
            for each in cluster.servers:
                each.command("CLUSTER", "FORGET", identity)


def test_a_slot_on_its_way_to_a_server_without_slots_keeps_its_leases(
    cluster: Cluster, open_client: OpenClient
) -> None:
    """The ordinary way to add a server. It is far away, and no node lists it among those that have slots."""
    source = cluster.masters[0]
    name = cluster.name_on(source)
    slot = slot_of(name)
    client = open_client(cluster.url, ttl=3)
    lease = client.acquire(name)
    with one_more_master(cluster) as (target, proxy):
        proxy.delay(requests=0.1, replies=0.1)
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        try:
            source.command("MIGRATE", "127.0.0.1", target.port, f"ht:{{{name}}}", 0, 5000)
            delay, end = Delay(os.getpid(), source.pid, target.pid), time.monotonic() + 4.5
            while time.monotonic() < end:
                client.locks.place.scout.doubt()  # as any broken connection does
                left = lease.tenure.deadline - boottime()
                assert not lease.lost, f"{lease.reason}, {left:.2f} s left, busy for {delay.seconds():.2f} s"
                time.sleep(0.05)
            # The scout's is closed whenever a round without a doubt ends, so a busy machine has it make several.
            names = [each for each in cluster.ours(target) if not each.endswith("-scout")]
            assert len(names) == 1, "the connection of the keeper"
            assert proxy.count(b"HELLO") - proxy.count(b"-scout") <= 2, "which is kept"
        finally:
            with suppress(Exception):
                target.command("MIGRATE", "127.0.0.1", source.port, f"ht:{{{name}}}", 0, 5000)
            for each in (source, target):
                each.command("CLUSTER", "SETSLOT", slot, "STABLE")
    source.command("FLUSHALL")
    with suppress(Exception):
        client.release(lease)


def test_a_client_has_as_many_connections_to_each_server_as_promised(cluster: Cluster, open_client: OpenClient) -> None:
    """One that is used, and the keeper's. A server without a lease of ours has none for long."""
    client = open_client(cluster.url, ttl=3)
    leases = [client.acquire(f"thing:{number}") for number in range(30)]
    end = max(lease.tenure.deadline for lease in leases)
    wait_for(lambda: all(lease.tenure.deadline > end for lease in leases), what="renewals on all servers")
    masters = cluster.masters
    wait_for(lambda: all(1 <= len(cluster.ours(each)) <= 2 for each in masters), what="no more than two each")
    replicas = [each for each in cluster.servers if each not in masters]
    wait_for(lambda: not any(cluster.ours(each) for each in replicas), what="none to a replica")
    for lease in leases:
        client.release(lease)
