"""Masters that must not be used, or cannot be for a while: what they say never means free, granted or lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from holdtight import Unavailable
from holdtight.stores.redis import scout
from tests.faults.clients import Colour, OpenClient, start
from tests.support.processes import wait_for
from tests.support.sentinels import SERVICE, SentinelServer, Topology
from tests.support.servers import VALKEY_9, RunningServer
from tests.support.servers import start as start_server
from tests.topology.switching import Switch


def test_a_master_that_its_replicas_have_deserted_grants_nothing_and_costs_no_lease(
    topology: Topology, open_client: OpenClient
) -> None:
    """It refuses writes (NOREPLICAS) until a replica is back."""
    master = topology.master
    holder, other = open_client(topology.url, ttl=30), open_client(topology.url, ttl=30, connect_timeout=1)
    kept = holder.acquire("kept")
    other.release(other.acquire("free"))
    master.command("CONFIG", "SET", "min-replicas-to-write", "3")  # there are two
    try:
        with pytest.raises(Unavailable, match="NOREPLICAS"):
            other.acquire("free", wait=1)
        with pytest.raises(Unavailable, match="NOREPLICAS"):
            other.acquire("kept", wait=1)
        holder.locks.place.runtime.keeper.hurry(holder.locks.place)
        wait_for(lambda: "NOREPLICAS" in (kept.tenure.doubt or ""), what="a renewal that is refused")
        assert not kept.lost
        waiting = start(lambda: other.acquire("free", wait=30))
    finally:
        master.command("CONFIG", "SET", "min-replicas-to-write", "0")
    other.release(waiting.result(20))
    wait_for(lambda: kept.remaining() > 28, what="the next renewal")
    holder.release(kept)


def test_an_old_master_that_comes_back_and_says_that_it_is_one_is_not_used(
    switch: Switch, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted server says so until a Sentinel converts it, and a Sentinel that was cut off may still name it."""
    monkeypatch.setattr(scout, "LATE_SECONDS", 5.0)  # a busy Sentinel must not count as one that cannot be asked
    client = open_client(switch.url, ttl=30)
    before = client.acquire("before")  # only a client in use, here by its lease, listens to the Sentinels
    switch.old.kill()
    switch.happen(client.locks)
    wait_for(lambda: before.lost, what="the loss to be told")
    switch.old.restart()
    assert switch.old.info("replication")["role"] == "master"
    for number in range(3):
        fresh = open_client(switch.url, ttl=30)
        for each in (client, fresh):
            lease = each.acquire(f"new:{number}", wait=10)
            assert lease.nodes == (f"redis://127.0.0.1:{switch.new.port}/0",)
            each.release(lease)
    assert Topology.ours(switch.old) == []
    assert not [name for name in switch.old.info("commandstats") if name.partition("_")[2] in ("evalsha", "hello")]


def test_a_release_that_meets_a_replica_takes_effect_afterwards(switch: Switch, open_client: OpenClient) -> None:
    """At first on the open connection, then on a new one. It does not wait for a failover to end."""
    client, other = open_client(switch.url, ttl=60), open_client(switch.url, ttl=60)
    lease = client.acquire("x")
    switch.old.command("REPLICAOF", "127.0.0.1", "1")
    begun = time.monotonic()
    with pytest.raises(Unavailable, match="replica"):
        client.release(lease)
    assert time.monotonic() - begun < 10, "it takes a second at most"
    switch.old.command("REPLICAOF", "NO", "ONE")
    other.release(other.acquire("x", wait=10))  # its ttl has 50 seconds left


@pytest.fixture
def slow_loader() -> Iterator[tuple[RunningServer, str]]:
    """A server that takes seconds to load what it has saved, and the URL of a Sentinel that names it."""
    words = ("--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024")
    with ExitStack() as stack:
        server = stack.enter_context(start_server(VALKEY_9, *words))
        sentinel = stack.enter_context(SentinelServer(VALKEY_9, server.port))
        yield server, f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}"


def test_a_server_that_loads_its_data_says_nothing_about_locks(
    slow_loader: tuple[RunningServer, str], open_client: OpenClient
) -> None:
    server, url = slow_loader
    holder, other = open_client(url, ttl=60, connect_timeout=20), open_client(url, ttl=60, connect_timeout=1)
    kept = holder.acquire("kept")
    server.command("EVAL", "for at = 1, 2000 do redis.call('SET', 'ballast:' .. at, string.rep('x', 200)) end", 0)
    server.command("SAVE")
    server.restart()
    with pytest.raises(Unavailable, match="LOADING"):
        other.acquire("kept")
    with pytest.raises(Unavailable, match="LOADING"):
        other.try_acquire("free")
    assert not kept.lost
    assert not kept.lost
    holder.release(holder.acquire("free", wait=20))
    assert not other.try_acquire("kept")
    assert not kept.lost
    holder.release(kept)


@pytest.mark.parametrize("acks", [0, 1])
def test_a_client_has_as_many_connections_as_promised(
    topology: Topology, open_client: OpenClient, colour: Colour, acks: int
) -> None:
    """One that is used, and the keeper's; with acks one more each, of asyncio and of the keeper."""
    client = open_client(topology.url, ttl=3, acks=acks)
    leases = [client.acquire(f"thing:{number}") for number in range(20)]
    end = leases[0].tenure.deadline
    wait_for(lambda: leases[0].tenure.deadline > end, what="a renewal")
    most = 2 + (acks and (2 if colour == "asyncio" else 1))
    # The server notices the end of one that waits for replicas a little later.
    wait_for(lambda: 2 <= len(topology.ours(topology.master)) <= most, what=f"no more than {most} connections")
    for sentinel in topology.sentinels:
        assert len(topology.ours(sentinel)) == 1
    for replica in topology.replicas:
        assert topology.ours(replica) == []
    for lease in leases:
        client.release(lease)
