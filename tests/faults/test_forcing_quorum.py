"""Releasing by force on a quorum: all nodes are told, silent ones too as far as they matter."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight import LeaseLost, LossReason, NotOwner, QuorumNotReached
from holdtight.core import force as core_force
from tests.faults.clients import OpenClient, start
from tests.faults.forcing import audit, force, is_lost
from tests.faults.quorum import Nodes, Side, StartNodes, votes_of, warm
from tests.support.processes import wait_for


def test_a_quorum_forces_on_all_nodes_and_the_holder_is_told(nodes: Nodes, open_client: OpenClient) -> None:
    holder, operator = open_client(nodes.urls, ttl=6), open_client(nodes.urls)
    lease = holder.acquire("a")
    wait_for(lambda: all(votes_of(nodes, "a")))
    waiter = start(lambda: operator.acquire("a", wait=20))
    record = force(operator)
    following = waiter.result(10)
    assert record is not None
    assert [each.owner for each in record.holders] == [lease.owner]
    assert lease.fence < record.fence < following.fence
    wait_for(lambda: lease.lost)
    assert lease.reason is LossReason.FORCED
    assert audit(operator) == [record]
    operator.release(following)
    with pytest.raises(NotOwner):
        holder.release(lease)


def test_a_renewal_does_not_bring_a_forced_grant_back(nodes: Nodes, open_client: OpenClient) -> None:
    """On a quorum a renewal creates what is missing: a marker must refuse it, also on a node that had no vote."""
    holder, operator = open_client(nodes.urls, ttl=9), open_client(nodes.urls)
    lease: Any = holder.acquire("a")
    wait_for(lambda: all(votes_of(nodes, "a")))
    nodes.servers[0].command("DEL", "ht:{a}")
    assert force(operator) is not None
    with pytest.raises(LeaseLost) as raised:  # or NotOwner, if the alarm has not told it yet
        holder.call(lease.renew)
    assert raised.value.reason is LossReason.FORCED
    assert not any(votes_of(nodes, "a"))


def test_readers_on_a_quorum(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls, ttl=6)
    book = client.locks.rwlock("book")
    readers = [client.call(book.read().acquire) for _ in range(2)]
    one = force(client, "book", owner=readers[0].owner)
    assert one is not None
    assert [each.owner for each in one.holders] == [readers[0].owner]
    client.call(readers[1].renew)
    is_lost(client, readers[0])
    assert force(client, "book") is not None
    is_lost(client, readers[1])
    writer = client.call(book.write(wait=10).acquire)
    assert writer.fence > one.fence
    client.release(writer)


def test_more_readers_of_a_quorum_than_an_inspection_shows_all_lose_it(
    nodes: Nodes, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_force, "LISTED", 3)
    client = open_client(nodes.urls, ttl=20)
    book = client.locks.rwlock("book")
    readers = [client.call(book.read().acquire) for _ in range(8)]
    wait_for(lambda: {server.command("ZCARD", "ht:{book}:h") for server in nodes.servers} == {8}, what="all votes")
    record = force(client, "book")
    assert record is not None
    assert {each.owner for each in record.holders} == {each.owner for each in readers}
    assert [len(each.holders) for each in audit(client)] == [2, 3, 3]
    for reader in readers:
        is_lost(client, reader)
    writer = client.call(book.write(wait=10).acquire)
    assert writer.fence > max(each.fence for each in audit(client))
    client.release(writer)


@pytest.mark.parametrize("silently", [True, pytest.param(False, marks=pytest.mark.long)], ids=["silent", "refusing"])
def test_a_minority_of_silent_nodes_does_not_matter_a_majority_does(
    start_nodes: StartNodes, open_client: OpenClient, silently: bool
) -> None:
    nodes = start_nodes(3)
    holder = open_client(nodes.urls, ttl=20)
    with Side(nodes) as side:
        operator = open_client(side.urls)
        warm(operator, nodes)
        first = holder.acquire("a")
        wait_for(lambda: all(votes_of(nodes, "a")))
        side.cut_off([0], silently=silently)
        record = force(operator)
        assert record is not None
        assert record.fence > first.fence
        assert audit(operator) == [record]
        is_lost(holder, first)
        second = holder.acquire("b")
        side.cut_off([1], silently=silently)
        with pytest.raises(QuorumNotReached):
            force(operator, "b")
        with pytest.raises(QuorumNotReached):
            audit(operator)
        side.heal()
        holder.release(second)


def test_nothing_held_on_a_quorum(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls)
    client.release(client.acquire("a"))
    wait_for(lambda: not any(votes_of(nodes, "a")))
    assert force(client) is None
    assert audit(client) == []
