"""Nodes that lose their votes under a lease: the restart guard, and what happens without it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from holdtight import Locks, LockTimeout, NotOwner, NotSupported, QuorumNotReached
from holdtight.grants.lease import BaseLease
from tests.faults.clients import Client, OpenClient
from tests.faults.quorum import Nodes, StartNodes
from tests.support.processes import wait_for

MAX_TTL = 4.0
TTL = 3.0


def restarted(nodes: Nodes) -> None:
    nodes.servers[2].restart()


def flushed(nodes: Nodes) -> None:
    nodes.servers[2].flushall()


def from_an_old_snapshot(nodes: Nodes) -> None:
    """It comes back as it was before the vote, with the stamp of its earlier run."""
    server = nodes.servers[2]
    stamp = server.command("GET", "ht:stamp")
    server.restart()
    server.command("SET", "ht:stamp", stamp)


HARM = pytest.mark.parametrize("harm", [restarted, flushed, from_an_old_snapshot], ids=lambda each: each.__name__)


def bare_majority(client: Client, nodes: Nodes) -> BaseLease:
    """A lease that holds on nodes 0, 1 and 2, is not renewed, and has its whole ttl left; then 3 and 4 come back."""
    for server in nodes.servers[3:]:
        server.pause()
    lease = client.acquire("a", renew=False, wait=5)
    assert set(lease.nodes) == set(nodes.urls[:3])
    return lease


def others_come_back(nodes: Nodes) -> None:
    """Without the votes of requests that they had not read when they hung."""
    for server in nodes.servers[3:]:
        server.restart()
        server.command("SET", "ht:stamp", f"s1{0:013}{int(MAX_TTL * 1000):09}{server.info('server')['run_id']}")


def nobody_else_has_it(lease: BaseLease, other: Client, ask: Callable[[], BaseLease | None]) -> None:
    """While the lease is held; afterwards another owner can."""
    while not lease.lost:
        second = ask()
        time.sleep(0.005)
        if second is not None:
            assert lease.remaining() == 0, "two hold it"
            other.release(second)
    other.release(other.acquire("a", wait=2 * MAX_TTL))


@HARM
def test_a_node_that_lost_its_vote_gives_no_second_one_within_the_ttl(
    start_nodes: StartNodes, open_client: OpenClient, harm: Callable[[Nodes], None]
) -> None:
    nodes = start_nodes(max_ttl=MAX_TTL, ttl=TTL)
    client, other = (open_client(nodes.urls, max_ttl=MAX_TTL, ttl=TTL) for _ in range(2))
    lease = bare_majority(client, nodes)
    harm(nodes)
    others_come_back(nodes)
    assert other.try_acquire("a") is None
    assert "restart guard" in other.call(other.locks.inspect, "a").nodes[nodes.urls[2]]
    nobody_else_has_it(lease, other, lambda: other.try_acquire("a"))
    with pytest.raises(NotOwner):
        client.release(lease)


@HARM
def test_a_client_whose_votes_had_passed_the_guard_before_is_refused_as_well(
    start_nodes: StartNodes, open_client: OpenClient, harm: Callable[[Nodes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client sends the + for longer than usual; and the snapshot has the tombstones of its votes."""
    monkeypatch.setattr("holdtight.stores.redis.handshake.VOUCHED_SECONDS", 1e9)
    nodes = start_nodes(max_ttl=MAX_TTL, ttl=TTL)
    client, other = (open_client(nodes.urls, max_ttl=MAX_TTL, ttl=TTL) for _ in range(2))

    def leaves_a_mark() -> bool:
        for server in nodes.servers:  # after a late answer a withdrawal would have left a tombstone without the mark
            server.command("DEL", "ht:{a}", "ht:{a}:w")
        for _ in range(20):
            other.release(other.acquire("a", wait=5))
        return str(nodes.servers[2].command("GET", "ht:{a}"))[:3] == "t1h"

    wait_for(leaves_a_mark)
    left = nodes.servers[2].command("GET", "ht:{a}")
    lease = bare_majority(client, nodes)
    harm(nodes)
    if harm is from_an_old_snapshot:
        nodes.servers[2].command("SET", "ht:{a}", left, "PX", 60_000)
    others_come_back(nodes)

    def ask() -> BaseLease | None:
        try:
            return other.try_acquire("a")
        except QuorumNotReached as error:
            if "closed the connection" not in str(error):
                raise
            return None  # it was connected to nodes that restarted, and notices only now

    nobody_else_has_it(lease, other, ask)


def test_a_flush_under_connections_that_vouch_for_the_node_is_noticed(
    start_nodes: StartNodes, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server restarts here, so that every connection lives on and keeps its +."""
    monkeypatch.setattr("holdtight.stores.redis.handshake.VOUCHED_SECONDS", 1e9)
    monkeypatch.setattr(
        "holdtight.stores.redis.handshake._GUARD_LOOKS", 10**9
    )  # the node may be among the last to answer many times in a row
    nodes = start_nodes(max_ttl=MAX_TTL, ttl=TTL)
    client, other = (open_client(nodes.urls, max_ttl=MAX_TTL, ttl=TTL) for _ in range(2))
    server = nodes.servers[2]
    stamp = server.command("GET", "ht:stamp")

    def take() -> None:
        held = other.acquire("a", wait=5)
        wait_for(lambda: str(server.command("GET", "ht:{a}")).startswith("x1") or server.command("GET", "ht:stamp"))
        other.release(held)
        wait_for(lambda: not str(server.command("GET", "ht:{a}")).startswith("x1"))

    def votes_without_a_look() -> bool:
        server.command("DEL", "ht:{a}")  # after a late answer a withdrawal would have left a tombstone without the mark
        take()
        server.command("DEL", "ht:stamp")
        take()
        looked = server.command("GET", "ht:stamp")
        server.command("SET", "ht:stamp", stamp)
        return looked is None

    for _ in range(20):
        take()
    wait_for(votes_without_a_look)
    connected = client.acquire("b", wait=5)
    wait_for(lambda: len(connected.nodes) == 5)
    client.release(connected)
    lease = client.acquire("a", renew=False, wait=5)
    wait_for(lambda: all(str(each.command("GET", "ht:{a}")).startswith("x1") for each in nodes.servers))
    for each in nodes.servers[3:]:
        each.command("DEL", "ht:{a}")
    server.flushall()
    nobody_else_has_it(lease, other, lambda: other.try_acquire("a"))


@HARM
def test_without_the_guard_the_same_lock_is_granted_twice(
    start_nodes: StartNodes, open_client: OpenClient, harm: Callable[[Nodes], None]
) -> None:
    nodes = start_nodes(max_ttl=MAX_TTL, ttl=TTL)
    client, other = (open_client(nodes.urls, ttl=TTL, max_ttl=MAX_TTL, restart_guard=False) for _ in range(2))
    lease = bare_majority(client, nodes)
    harm(nodes)
    others_come_back(nodes)
    second = other.acquire("a", wait=1)
    assert not lease.lost, "two hold it"
    other.release(second)
    with suppress(NotOwner):  # a node that hung cannot say whether it was ours
        client.release(lease)


def test_one_that_loses_its_vote_is_tolerated_by_a_lease_on_more_than_a_bare_majority(
    start_nodes: StartNodes, open_client: OpenClient
) -> None:
    nodes = start_nodes(max_ttl=MAX_TTL, ttl=TTL)
    client, other = (open_client(nodes.urls, max_ttl=MAX_TTL, ttl=TTL) for _ in range(2))
    lease = client.acquire("a")
    wait_for(lambda: len(lease.nodes) == 5)
    nodes.servers[0].restart()
    nodes.servers[1].flushall()
    wait_for(lambda: len(lease.nodes) == 3)
    assert other.try_acquire("a") is None
    wait_for(lambda: len(lease.nodes) == 5, within=2 * MAX_TTL + TTL)
    assert not lease.lost
    client.release(lease)


def test_the_first_start_waits_for_max_ttl_or_for_the_operator(
    start_nodes: StartNodes, open_client: OpenClient
) -> None:
    nodes = start_nodes(blessed=False)
    client = open_client(nodes.urls, max_ttl=2, ttl=2)
    with pytest.raises(QuorumNotReached, match="bless"):
        client.acquire("a", wait=0.7)
    started = time.monotonic()
    client.release(client.acquire("a", wait=10))
    assert 0.5 < time.monotonic() - started < 8

    for server in nodes.servers:
        server.flushall()
    patient = open_client(nodes.urls)
    with pytest.raises(QuorumNotReached):
        patient.acquire("a", wait=0)
    info = patient.call(patient.locks.inspect, "a")
    assert sum("restart guard" in said for said in info.nodes.values()) >= 3
    assert set(patient.call(patient.locks.bless).values()) == {"blessed"}
    patient.release(patient.acquire("a", wait=0))
    info = patient.call(patient.locks.inspect, "a")
    assert not any("restart guard" in said for said in info.nodes.values())


def test_a_node_that_nobody_has_asked_since_its_start_is_said_to_be_guarded(
    nodes: Nodes, open_client: OpenClient
) -> None:
    """It has no stamp yet: that is an answer, not a missing one."""
    client = open_client(nodes.urls)
    for server in nodes.servers[:2]:
        server.flushall()
    started = time.monotonic()
    info = client.call(client.locks.inspect, "a")
    assert time.monotonic() - started < 1.5, "two seconds are how long no answer is waited for"
    assert ["restart guard" in said for said in info.nodes.values()] == [True, True, False, False, False]


def test_the_longest_max_ttl_that_a_node_has_seen_counts(start_nodes: StartNodes, open_client: OpenClient) -> None:
    nodes = start_nodes(blessed=False)
    with Locks(nodes.urls, max_ttl=60) as careful, pytest.raises(QuorumNotReached):
        careful.lock("a").acquire(wait=0)
    hasty = open_client(nodes.urls, max_ttl=0.2, ttl=0.1)
    with pytest.raises((QuorumNotReached, LockTimeout)):
        hasty.acquire("a", wait=1)


def test_bless_is_for_quorums_with_a_guard(nodes: Nodes, open_client: OpenClient) -> None:
    for client in (open_client(nodes.urls[0]), open_client(nodes.urls, restart_guard=False)):
        with pytest.raises(NotSupported, match="bless"):
            client.call(client.locks.bless)


def test_a_blessing_is_kept_in_the_audit(start_nodes: StartNodes, open_client: OpenClient) -> None:
    nodes = start_nodes(3, blessed=False)
    client = open_client(nodes.urls)
    assert client.call(client.locks.audit) == []
    client.call(client.locks.bless)
    (record,) = client.call(client.locks.audit)
    assert (record.action, record.name, record.holders, record.pid) == ("bless", "", (), os.getpid())
    assert record.reason == "no lease was held when the nodes last started"
    assert "@" in record.by


def test_without_the_right_to_record_it_nothing_is_blessed(start_nodes: StartNodes, open_client: OpenClient) -> None:
    nodes = start_nodes(3, blessed=False)
    for server in nodes.servers:
        server.command("ACL", "SETUSER", "default", "-xadd")
    client = open_client(nodes.urls)
    with pytest.raises(QuorumNotReached, match="xadd"):
        client.call(client.locks.bless)
    for server in nodes.servers:
        server.command("ACL", "SETUSER", "default", "+xadd")
    with pytest.raises(QuorumNotReached, match="bless"):
        client.acquire("a", wait=0)


def test_too_few_nodes_to_bless_are_named(nodes: Nodes, open_client: OpenClient) -> None:
    for server in nodes.servers[:3]:
        server.kill()
    client = open_client(nodes.urls)
    with pytest.raises(QuorumNotReached) as raised:
        client.call(client.locks.bless)
    assert raised.value.nodes[nodes.urls[4]] == "blessed"
