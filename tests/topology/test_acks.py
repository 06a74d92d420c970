"""`acks`: a grant or a renewal counts once replicas have it. Replicas that are stalled, slow or missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks, LossReason, Unavailable
from holdtight.base import plan
from holdtight.base.plan import Acks
from holdtight.events import Event, RenewalFailed
from holdtight.stores.redis.acks import WaitForReplicas
from tests.faults.clients import OpenClient, start
from tests.support.leases import renewed
from tests.support.processes import wait_for
from tests.support.raw import ServerSaid
from tests.support.sentinels import Topology
from tests.support.servers import RunningServer
from tests.topology.granting import NAME, SHORT, WAYS, taken, waits

KEY = "ht:{thing}"


@pytest.fixture(params=["one server", pytest.param("sentinel", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, topology: Topology) -> str:
    return topology.url if request.param == "sentinel" else topology.master.url


@pytest.fixture
def stalled(topology: Topology) -> Iterator[Callable[[], None]]:
    """Stops all replicas, until the test ends at the latest."""

    def stall() -> None:
        for replica in topology.replicas:
            replica.pause()

    yield stall
    for server in topology.servers:
        server.resume()


def resume(topology: Topology) -> None:
    for server in topology.servers:
        server.resume()


def test_every_grant_is_on_all_replicas_that_were_asked_for(
    topology: Topology, open_client: OpenClient, url: str
) -> None:
    client, other = open_client(url, acks=2, ttl=30), open_client(url, ttl=30)
    for way in WAYS:
        lease = way(client, other, topology.master)()
        assert lease.acks == 2, way.__name__
        for replica in topology.replicas:
            assert replica.command("EXISTS", KEY) == 1, way.__name__
        client.release(lease)


def test_a_grant_that_stalled_replicas_do_not_have_is_given_back_and_free_at_once(
    topology: Topology, open_client: OpenClient, url: str, stalled: Callable[[], None]
) -> None:
    master = topology.master
    client, other = open_client(url, acks=1, connect_timeout=SHORT), open_client(url)
    wait_for(lambda: taken(client), what="connections")
    for way in WAYS:
        take = way(client, other, master)
        stalled()
        with pytest.raises(Unavailable, match=r"0 of 1 replicas acknowledged") as refused:
            take()
        assert refused.value.name == NAME
        lease = other.try_acquire(NAME)
        assert lease is not None, way.__name__
        other.release(lease)
        resume(topology)
    assert other.locks.settings.acks == 0


def test_others_get_it_between_two_tries(
    topology: Topology, open_client: OpenClient, url: str, stalled: Callable[[], None]
) -> None:
    client, other = open_client(url, acks=1, ttl=3, connect_timeout=60), open_client(url)
    client.release(client.acquire("first"))
    stalled()
    trying = start(lambda: client.acquire(NAME, wait=60))
    wait_for(lambda: waits(topology.master) == 1, what="a WAIT")
    other.release(other.acquire(NAME, wait=20))
    assert not trying.done()
    resume(topology)
    lease = trying.result(60)
    assert lease.acks >= 1
    client.release(lease)


def test_replicas_that_are_missing_are_counted(topology: Topology, open_client: OpenClient, url: str) -> None:
    client = open_client(url, acks=3, connect_timeout=SHORT)
    with pytest.raises(Unavailable, match=r"only [012] of 3 replicas acknowledged within .* given back"):
        client.acquire(NAME)
    other = open_client(url)
    other.release(other.acquire(NAME, wait=0))


def test_a_slow_replica_delays_a_grant_and_nobody_else(
    topology: Topology, open_client: OpenClient, url: str, stalled: Callable[[], None]
) -> None:
    client = open_client(url, acks=1, ttl=30, connect_timeout=20)
    held = client.acquire("held")
    stalled()
    slow = start(lambda: client.acquire(NAME, wait=20))
    wait_for(lambda: waits(topology.master) == 1, what="a WAIT")
    client.release(held)  # the same client, while the WAIT lasts
    assert topology.master.command("GET", "ht:{held}").startswith("t1")
    assert not slow.done()
    resume(topology)
    lease = slow.result(20)
    assert lease.acks >= 1
    client.release(lease)


def test_a_renewal_that_too_few_replicas_have_does_not_count(
    topology: Topology, open_client: OpenClient, url: str, stalled: Callable[[], None]
) -> None:
    client = open_client(url, acks=1, ttl=3)
    heard: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, RenewalFailed):
            heard.append(event.cause)

    client.locks.events.subscribe(hear)
    lease = client.acquire(NAME)
    renewed(lease)
    stalled()
    wait_for(lambda: heard, what="a renewal that fails")
    assert not lease.lost, "it has time left"
    resume(topology)
    renewed(lease)
    stalled()
    wait_for(lambda: lease.lost, what="the lease to be lost")
    assert lease.reason is LossReason.UNREACHABLE
    assert set(heard) == {"0 of 1 replicas acknowledged"}


def test_a_renewal_that_a_caller_waits_for_needs_replicas_too(
    topology: Topology, open_client: OpenClient, url: str, stalled: Callable[[], None]
) -> None:
    client = open_client(url, acks=1, ttl=30)
    lease: Any = client.acquire(NAME)
    client.call(lease.renew, 20)
    assert lease.acks >= 1
    stalled()
    with pytest.raises(Unavailable, match="cannot renew: 0 of 1 replicas acknowledged"):
        client.call(lease.renew, 40)
    with pytest.raises(Unavailable, match="cannot detach"):
        client.call(lease.detach)
    assert not lease.lost
    resume(topology)
    renewed(lease)
    client.release(lease)


def test_a_connection_that_breaks_during_the_wait_costs_nothing(
    topology: Topology, open_client: OpenClient, url: str, stalled: Callable[[], None]
) -> None:
    client = open_client(url, acks=1, ttl=30, connect_timeout=20)
    stalled()
    taken = start(lambda: client.acquire(NAME, wait=20))
    wait_for(lambda: waits(topology.master) == 1, what="a WAIT")
    fence = topology.master.command("GET", KEY)
    for each in topology.master.clients():
        if each["name"].startswith("holdtight"):
            topology.master.command("CLIENT", "KILL", "ID", each["id"])
    wait_for(lambda: waits(topology.master) == 1, what="another WAIT")
    assert topology.master.command("GET", KEY) == fence, "the same owner has the same grant"
    resume(topology)
    lease = taken.result(20)
    assert lease.acks >= 1
    client.release(lease)


def test_replicas_that_are_slow_are_no_reason_to_go_on_without_the_server(
    topology: Topology, open_client: OpenClient, url: str, stalled: Callable[[], None]
) -> None:
    for how in ("local", "open"):
        client = open_client(url, acks=1, on_unavailable=how, connect_timeout=SHORT)
        client.release(client.acquire("first"))
        stalled()
        with pytest.raises(Unavailable, match="0 of 1"):
            client.acquire(NAME)
        resume(topology)


def test_a_task_that_is_cancelled_during_the_wait_gives_the_grant_back(
    topology: Topology, url: str, stalled: Callable[[], None]
) -> None:
    async def main() -> None:
        async with AsyncLocks(url, acks=1, ttl=30, connect_timeout=20) as locks:
            await (await locks.lock("first").acquire()).release()
            stalled()
            task = asyncio.create_task(locks.lock(NAME).acquire(wait=20))
            while waits(topology.master) == 0:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert topology.master.command("GET", KEY).startswith("t1"), "a tombstone"

    asyncio.run(main())


def test_one_wait_serves_all_tasks_that_were_answered_before_it_left(topology: Topology, url: str) -> None:
    async def main() -> None:
        async with AsyncLocks(url, acks=1, ttl=30) as locks:
            await (await locks.lock("first").acquire()).release()
            before = calls(topology.master, "wait")
            leases = await asyncio.gather(*[locks.lock(f"n{number}").acquire() for number in range(100)])
            assert all(lease.acks >= 1 for lease in leases)
            assert 1 <= calls(topology.master, "wait") - before <= 20
            await asyncio.gather(*[lease.release() for lease in leases])

    asyncio.run(main())


def test_one_wait_serves_all_renewals_that_were_answered_before_it_left(topology: Topology, url: str) -> None:
    with Locks(url, acks=1, ttl=6) as locks:
        leases = [locks.lock(f"n{number}").acquire() for number in range(100)]
        before = calls(topology.master, "wait")
        locks.place.runtime.keeper.hurry(locks.place)
        ends = [lease.tenure.deadline for lease in leases]
        wait_for(
            lambda: all(lease.tenure.deadline > end for lease, end in zip(leases, ends, strict=True)),
            what="all renewals",
        )
        assert 1 <= calls(topology.master, "wait") - before <= 50
        for lease in leases:
            lease.release()


def test_a_failover_keeps_a_lease_that_a_replica_has_acknowledged(topology: Topology, open_client: OpenClient) -> None:
    client = open_client(topology.url, acks=1, ttl=30)
    leases = [client.acquire(f"n{number}") for number in range(20)]
    ends = [lease.tenure.deadline for lease in leases]
    old = topology.master
    old.kill()
    wait_for(lambda: topology.master is not old, what="another master")
    wait_for(
        lambda: all(lease.tenure.deadline > end or lease.lost for lease, end in zip(leases, ends, strict=True)),
        what="renewals",
    )
    assert not [lease for lease in leases if lease.lost]
    assert {lease.acks for lease in leases} == {1}, "one replica is left"
    for lease in leases:
        client.release(lease)


def calls(server: RunningServer, command: str) -> int:
    told = server.info("commandstats").get(f"cmdstat_{command}", "calls=0")
    return int(told.partition("calls=")[2].partition(",")[0])


# What the server counts.


def count(server: RunningServer, *first: str) -> int:
    """What WAIT says on a new connection behind this request."""
    with server.connect() as client:
        client.call(*first)
        return int(client.call("WAIT", 1, 50))


def counted(server: RunningServer) -> int:
    """What our own requests count."""
    with server.connect() as client:
        values: list[Any] = []
        for step in WaitForReplicas("ht", 1).wish(NAME, 0.05).steps:
            client.socket.sendall(step.packed(b""))
            reply = client.read()
            values.append(plan.ServerSaid(str(reply)) if isinstance(reply, ServerSaid) else step.read(reply, 0.0))
        return Acks.counted(values)


def test_a_wait_behind_nothing_that_changed_is_vacuous_and_ours_is_not(
    topology: Topology, stalled: Callable[[], None]
) -> None:
    master = topology.master
    master.command("SET", "k", "v")
    wait_for(lambda: counted(master) > 0, what="replicas that keep up")
    stalled()
    with master.connect() as other:
        other.call("SET", "k", "w")  # which no replica has
    if topology.flavour.name.startswith("valkey"):
        assert count(master, "PING") > 0
        assert count(master, "GET", "k") > 0
        assert count(master, "PEXPIRE", "missing", "1000") > 0
    assert counted(master) == 0
    master.command("CONFIG", "SET", "maxmemory", "1")
    try:
        assert counted(master) == 0, "also without memory"
    finally:
        master.command("CONFIG", "SET", "maxmemory", "0")
    resume(topology)
    wait_for(lambda: counted(master) > 0, what="replicas that keep up")
