"""What is given up while the server refuses everything for a moment is given up on the server soon after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdtight import Unavailable
from tests.faults.clients import OpenClient, start, waiting
from tests.support.clusters import Cluster
from tests.support.processes import wait_for
from tests.support.sentinels import Topology
from tests.support.servers import RunningServer


@contextmanager
def taking_no_writes(server: RunningServer) -> Iterator[None]:
    """As a master whose replicas are gone: NOREPLICAS."""
    server.command("CONFIG", "SET", "min-replicas-to-write", 9)
    try:
        yield
    finally:
        server.command("CONFIG", "SET", "min-replicas-to-write", 0)


def check_that_it_leaves_the_line(url: str, name: str, server: RunningServer, open_client: OpenClient) -> None:
    holder, other = open_client(url, ttl=60), open_client(url, ttl=60)
    lease = holder.acquire(name)
    waiter = start(lambda: other.acquire(name, wait=1))
    wait_for(lambda: waiting(server, name) == 1)
    with taking_no_writes(server):
        with pytest.raises(Unavailable):
            waiter.result(20)
        assert waiting(server, name) == 1
    wait_for(lambda: waiting(server, name) == 0, within=3, what="it to leave the line, before its heartbeat is missed")
    holder.release(lease)


def test_a_waiter_leaves_the_line_of_a_master_that_refused_at_first(
    topology: Topology, open_client: OpenClient
) -> None:
    check_that_it_leaves_the_line(topology.url, "thing", topology.master, open_client)


def test_a_waiter_leaves_the_line_of_a_shard_that_refused_at_first(cluster: Cluster, open_client: OpenClient) -> None:
    server = cluster.masters[0]
    check_that_it_leaves_the_line(cluster.url, cluster.name_on(server), server, open_client)
