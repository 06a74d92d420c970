"""`acks` on a cluster: every server has replicas of its own, and only those of the server that granted count."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdtight import Locks, LossReason, Unavailable
from holdtight.events import Event, RenewalFailed
from holdtight.stores.redis.acks import MARK_MS
from holdtight.stores.redis.slots import slot_of_request
from tests.faults.clients import OpenClient, start
from tests.support.clusters import Cluster, ClusterNode, slot_of
from tests.support.leases import renewed
from tests.support.processes import wait_for
from tests.topology.granting import NAME, SHORT, WAYS, taken, waits

KEY = "ht:{thing}"


@pytest.fixture
def stall(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """Stops the replica of the server that has NAME, until the test ends at the latest."""
    replica = replica_of(cluster, NAME)
    yield replica.pause
    replica.resume()


def replica_of(cluster: Cluster, name: str) -> ClusterNode:
    return cluster.serving(slot_of(name))[1][0]


def elsewhere(cluster: Cluster) -> str:
    """A name that another server has."""
    return cluster.name_on(next(each for each in cluster.masters if each is not cluster.master_of(NAME)))


def has(server: ClusterNode, key: str) -> bool:
    """Whether a replica has it: as a rule it says where its master is instead."""
    with server.connect() as client:
        client.call("READONLY")
        return bool(client.call("EXISTS", key))


def test_every_grant_is_on_the_replica_of_its_server(cluster: Cluster, open_client: OpenClient) -> None:
    client, other = open_client(cluster.url, acks=1, ttl=30), open_client(cluster.url, ttl=30)
    for way in WAYS:
        lease = way(client, other, cluster.master_of(NAME))()
        assert lease.acks == 1, way.__name__
        assert has(replica_of(cluster, NAME), KEY), way.__name__
        client.release(lease)


def test_locks_on_all_servers_have_the_fewest_acks_of_all_parts(cluster: Cluster, open_client: OpenClient) -> None:
    client = open_client(cluster.url, acks=1, ttl=30)
    names = [cluster.name_on(each) for each in cluster.masters]
    lease = client.call(client.locks.multi(*names).acquire)
    assert lease.acks == 1
    assert all(has(replica_of(cluster, name), f"ht:{{{name}}}") for name in names)
    client.release(lease)


def test_a_stalled_replica_stops_the_names_of_its_server_and_no_others(
    cluster: Cluster, open_client: OpenClient, stall: Callable[[], None]
) -> None:
    client, other = open_client(cluster.url, acks=1, connect_timeout=SHORT), open_client(cluster.url)
    patient, there = open_client(cluster.url, acks=1, connect_timeout=20), elsewhere(cluster)
    wait_for(lambda: taken(client, NAME), what="connections")
    for way in WAYS:
        take = way(client, other, cluster.master_of(NAME))
        stall()
        with pytest.raises(Unavailable, match=r"0 of 1 replicas acknowledged|did not answer in time") as refused:
            take()
        busy = "in time" in str(refused.value)  # the machine: a WAIT was answered 0.2 s late
        other.release(other.acquire(NAME, wait=20 if busy else 0))  # below the ttl
        lease = patient.acquire(there)
        assert lease.acks == 1
        patient.release(lease)
        replica_of_stalled(cluster).resume()


def replica_of_stalled(cluster: Cluster) -> ClusterNode:
    return next(each for each in cluster.servers if each.stopped)


def test_nobody_waits_behind_the_count_of_another_server(
    cluster: Cluster, open_client: OpenClient, stall: Callable[[], None]
) -> None:
    client = open_client(cluster.url, acks=1, ttl=30, connect_timeout=20)
    there = elsewhere(cluster)
    client.release(client.acquire(there))
    stall()
    slow = start(lambda: client.acquire(NAME, wait=20))
    wait_for(lambda: waits(cluster.master_of(NAME)) == 1, what="a WAIT")
    client.release(client.acquire(there))
    assert not slow.done()
    replica_of_stalled(cluster).resume()
    lease = slow.result(20)
    assert lease.acks == 1
    client.release(lease)


def test_replicas_that_are_missing_are_counted(cluster: Cluster, open_client: OpenClient) -> None:
    client = open_client(cluster.url, acks=2, connect_timeout=2)
    with pytest.raises(Unavailable, match=r"only [01] of 2 replicas acknowledged"):
        client.acquire(NAME)
    other = open_client(cluster.url)
    other.release(other.acquire(NAME, wait=0))


def test_a_renewal_that_the_stalled_replica_does_not_have_does_not_count(
    cluster: Cluster, open_client: OpenClient, stall: Callable[[], None]
) -> None:
    client = open_client(cluster.url, acks=1, ttl=3)
    heard: list[tuple[str, str]] = []

    def hear(event: Event) -> None:
        if isinstance(event, RenewalFailed):
            heard.append((event.name, event.cause))

    client.locks.events.subscribe(hear)
    lease, well = client.acquire(NAME), client.acquire(elsewhere(cluster))
    renewed(lease)
    stall()
    wait_for(lambda: heard, what="a renewal that fails")
    assert not lease.lost, "it has time left"
    replica_of_stalled(cluster).resume()
    renewed(lease)
    stall()
    wait_for(lambda: lease.lost, what="the lease to be lost")
    assert lease.reason is LossReason.UNREACHABLE
    assert set(heard) == {(NAME, "0 of 1 replicas acknowledged")}
    renewed(well)
    assert well.acks == 1
    client.release(well)


def test_a_lease_is_kept_while_the_move_of_its_slot_stalls(cluster: Cluster, open_client: OpenClient) -> None:
    """First at the old server, whose marks must not need that slot, then at the new one."""
    source = cluster.master_of(NAME)
    target = next(each for each in cluster.masters if each is not source)
    client = open_client(cluster.url, acks=1, ttl=3)
    lease = client.acquire(NAME)
    with cluster.moving(slot_of(NAME), target) as move:
        renewed(lease, times=4)
        move.move(KEY)
        renewed(lease, times=4)
        assert target.command("CLUSTER", "COUNTKEYSINSLOT", slot_of(NAME)) == 1
    renewed(lease, times=2)
    assert lease.acks == 1
    client.release(lease)


def test_the_count_of_a_server_that_did_not_grant_it_proves_nothing(cluster: Cluster, open_client: OpenClient) -> None:
    """The slot moves between the grant and the count: the same owner asks again, and is counted there."""
    source = cluster.master_of(NAME)
    target = next(each for each in cluster.masters if each is not source)
    client = open_client(cluster.url, acks=1, ttl=30, connect_timeout=10)
    place = client.locks.place
    fences: list[str] = []
    asked: list[object] = []
    wish = place.acks.wish

    def moved(name: str, seconds: float) -> Any:
        if not fences:
            fences.append(source.command("GET", KEY))
            with cluster.moving(slot_of(NAME), target):
                pass
            place.follow(f"MOVED {slot_of(NAME)} 127.0.0.1:{target.port}", place.of_name(NAME))
        found = wish(name, seconds)
        asked.append(found.node)
        return found

    place.acks.wish = moved
    before = calls(target, "wait")
    lease = client.acquire(NAME, wait=20)
    assert lease.acks == 1
    assert lease.nodes == (f"redis://127.0.0.1:{target.port}/0",)
    assert calls(target, "evalsha") > 0, "it asked there"
    assert len(asked) == 2, "the first count was not believed"
    assert calls(target, "wait") == before + 1
    assert str(lease.fence) in fences[0] or target.command("GET", KEY) == fences[0], "the same grant"
    assert has(replica_of(cluster, cluster.name_on(target)), KEY)
    client.release(lease)


def test_a_mark_whose_slot_has_moved_costs_another_try(cluster: Cluster, open_client: OpenClient) -> None:
    source = cluster.master_of(NAME)
    target = next(each for each in cluster.masters if each is not source)
    client = open_client(cluster.url, acks=1, ttl=3, connect_timeout=10)
    lease = client.acquire(NAME)
    node = client.locks.place.of_name(NAME)

    def move_the_mark() -> None:
        first, _, _ = node.acks.wish(NAME, 1.0).steps
        first.read(b"OK", 0.0)  # so that the next count takes it
        slot = slot_of_request(first.before)
        assert slot is not None
        with cluster.moving(slot, target):
            pass
        node.cluster.nodes_at[slot] = node  # the client does not know it yet

    move_the_mark()
    client.call(lease.renew)  # type: ignore[attr-defined]
    move_the_mark()
    other = client.try_acquire(cluster.name_on(source, "other"))
    assert other is not None
    assert lease.acks == other.acks == 1
    client.release(other)
    client.release(lease)


def test_doctor_finds_servers_with_too_few_replicas(cluster: Cluster, open_client: OpenClient) -> None:
    for acks, few in ((1, 0), (2, 3)):
        client = open_client(cluster.url, acks=acks)
        found = [finding.id for finding in client.call(client.locks.doctor)]
        assert found.count("ACKS_UNREACHABLE") == few
        assert "RIGHT_MISSING" not in found
        assert "ASYNC_REPLICAS" not in found


def calls(server: ClusterNode, command: str) -> int:
    told = server.info("commandstats").get(f"cmdstat_{command}", "calls=0")
    return int(told.partition("calls=")[2].partition(",")[0])


def test_a_failover_keeps_leases_that_the_replica_has_acknowledged(cluster: Cluster, open_client: OpenClient) -> None:
    client = open_client(cluster.url, acks=1, ttl=30)
    master = cluster.master_of(NAME)
    names = cluster.names_on(master)
    leases = [client.acquire(next(names)) for _ in range(20)]
    master.kill()
    cluster.replaced(master)
    for lease in leases:
        assert cluster.master_of(lease.name).command("EXISTS", f"ht:{{{lease.name}}}") == 1
    cluster.heal()  # until then the new master has no replica
    ends = [lease.tenure.deadline for lease in leases]
    wait_for(
        lambda: all(lease.tenure.deadline > end or lease.lost for lease, end in zip(leases, ends, strict=True)),
        what="renewals",
        within=30,
    )
    assert not [lease for lease in leases if lease.lost]
    assert {lease.acks for lease in leases} == {1}
    for lease in leases:
        client.release(lease)


# The marks.


def test_marks_are_in_slots_of_the_server_that_counts() -> None:
    with Locks("redis+cluster://127.0.0.1:1", acks=1) as locks:
        place: Any = locks.place
        one, other = place.node(("127.0.0.1", 1)), place.node(("127.0.0.1", 2))
        place.nodes_at[:] = [one if slot % 2 else other for slot in range(len(place.nodes_at))]

        def marks(count: int, reply: object) -> list[bytes]:
            found = []
            for _ in range(count):
                first, second, _ = one.acks.wish(NAME, 1.0).steps
                assert slot_of_request(first.before) == slot_of_request(second.before)
                found.append(first.before)
                if reply is not None:
                    first.read(reply, 0.0)
            return found

        def at(mark: bytes) -> object:
            return place.nodes_at[slot_of_request(mark)]

        begun = time.process_time()
        assert len(set(marks(100, b"OK"))) == 1
        refused = marks(100, None)
        assert len(set(refused)) == 4, "another one each time, but not without end"
        assert all(str(MARK_MS).encode() in mark and at(mark) is one for mark in refused)
        place.nodes_at[:] = [other] * len(place.nodes_at)
        place.nodes_at[77] = one
        assert {slot_of_request(mark) for mark in marks(20, None)} == {77}
        place.nodes_at[77] = other
        assert marks(1, None), "the server will say that it has no slot"
        assert time.process_time() - begun < 10
