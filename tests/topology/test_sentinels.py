"""What the Sentinels say, and what is believed of it."""

from __future__ import annotations

import threading
import time
from typing import Any, Literal

import pytest

from holdtight import NotPermitted, Unavailable
from holdtight.base.clock import DRIFT, boottime
from holdtight.base.plan import LinkDown
from holdtight.base.values import Claim
from holdtight.config.targets import Address
from holdtight.events import Event, FailedOver
from holdtight.stores.client import Client
from holdtight.stores.redis.connect import open_link
from holdtight.stores.redis.script import with_script_body
from holdtight.stores.redis.store import Store
from tests.faults.clients import OpenClient
from tests.support.leases import renewed
from tests.support.processes import wait_for
from tests.support.sentinels import SERVICE, SentinelServer, Topology
from tests.support.servers import StartServer


def url_of(*sentinels: SentinelServer, service: str = SERVICE) -> str:
    return f"redis+sentinel://{','.join(f'127.0.0.1:{each.port}' for each in sentinels)}/{service}"


def test_a_lock_on_sentinel_excludes_a_client_of_the_master_itself(topology: Topology, open_client: OpenClient) -> None:
    by_sentinel, direct = open_client(topology.url), open_client(topology.master.url)
    lease = by_sentinel.acquire("shared")
    assert direct.try_acquire("shared") is None
    by_sentinel.release(lease)
    direct.release(direct.acquire("shared", wait=5))


def test_a_service_that_no_sentinel_knows_is_named(topology: Topology, open_client: OpenClient) -> None:
    client = open_client(url_of(*topology.sentinels, service="nosuch"), connect_timeout=0.5)
    with pytest.raises(Unavailable, match="no Sentinel knows a service called 'nosuch'"):
        client.acquire("x", wait=5)


def test_a_sentinel_that_refuses_the_login_is_named(topology: Topology, open_client: OpenClient) -> None:
    with SentinelServer(topology.flavour, topology.master.port, password="secret") as guarded:
        for wrong in ({}, {"sentinel_credentials": "wrong"}):
            client = open_client(url_of(guarded), **wrong)
            with pytest.raises(NotPermitted, match=f"Sentinel 127.0.0.1:{guarded.port}: (NOAUTH|WRONGPASS)") as refused:
                client.acquire("x", wait=5)
            assert "wrong" not in str(refused.value)
        client = open_client(url_of(guarded), sentinel_credentials=lambda: "secret")
        client.release(client.acquire("x", wait=5))


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_replica_is_not_connected_to_whatever_a_sentinel_says(topology: Topology, protocol: Literal[2, 3]) -> None:
    replica = Address("127.0.0.1", topology.replicas[0].port, protocol=protocol)
    client = Client("ht")
    with pytest.raises(LinkDown, match="it is a replica, not the master"):
        open_link(replica, client, 5.0, master_only=True)
    assert client.lead is None, "its time is not the master's"
    master = Address("127.0.0.1", topology.master.port, protocol=protocol)
    open_link(master, client, 5.0, master_only=True).close()


def test_dead_and_hung_sentinels_delay_nobody(topology: Topology, open_client: OpenClient) -> None:
    topology.sentinels[0].kill()
    topology.sentinels[1].pause()
    client = open_client(topology.url, connect_timeout=5)
    began = time.monotonic()
    client.release(client.acquire("x", wait=5))
    assert time.monotonic() - began < 3


def test_a_sentinel_that_lags_behind_is_not_believed(
    topology: Topology, open_client: OpenClient, start_server: StartServer
) -> None:
    stranger = start_server(flavour=topology.flavour)
    with SentinelServer(topology.flavour, stranger.port) as mistaken:
        client = open_client(url_of(mistaken, *topology.sentinels))
        heard: list[Event] = []
        client.locks.events.subscribe(lambda event: heard.append(event) if isinstance(event, FailedOver) else None)
        client.release(client.acquire("x", wait=5))
        assert stranger.keys() == []
        topology.failover()
        wait_for(lambda: heard, what="the failover")
        topology.agreed()
        for _ in range(20):
            client.locks.place.doubt("")
            client.release(client.acquire("x", wait=5))
        assert stranger.keys() == []
        assert len(heard) == 1


def scouts() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "holdtight-scout"}


def test_the_scout_ends_with_the_client_but_not_before_its_leases(topology: Topology, open_client: OpenClient) -> None:
    others, found = scouts(), list[threading.Thread]()
    for kept in (False, True):
        client = open_client(topology.url, ttl=3)
        assert scouts() <= {*others, *found}, "nothing is sent before the first lock"
        lease = client.acquire("x")
        found += scouts() - {*others, *found}
        if not kept:
            client.release(lease)
        client.call(getattr(client.locks, "aclose", None) or client.locks.close)
    wait_for(lambda: not found[0].is_alive(), what="the scout of the client without leases to end")
    renewed(lease)
    wait_for(lambda: scouts() - {*others, found[0]}, what="a scout, perhaps another one, while the lease is kept")
    client.release(lease)


def test_not_ours_is_said_only_by_a_server_that_takes_writes(topology: Topology) -> None:
    """A demoted server that has not received a grant yet must not make its holder believe that it is lost."""
    client, replica = Client("ht"), topology.replicas[0]
    claim = Claim("thing", 10.0)
    prepared: Any = Store(client, server="replica", drift=DRIFT, max_waiters=10).prepare(claim)
    owner, other, now = client.owner(), client.owner(), boottime()
    link = open_link(Address("127.0.0.1", replica.port), client, 5.0)
    try:
        for request in (
            prepared.renew_request(owner, now, 10.0, 5.0),
            prepared.set_request(owner, now, 10.0, 5.0, 1, 0),
            prepared.release_step(owner).packed(link.inbox_word),
            prepared.adopt_step(other, owner, now=now).packed(link.inbox_word),
            prepared.downgrade_step(owner, now=now).packed(link.inbox_word),
        ):
            assert str(link.call(with_script_body(request), 5.0)).startswith("READONLY")
    finally:
        link.close()
