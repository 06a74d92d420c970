"""Locks on five servers, both colours: their promises while all nodes are well, and what they refuse."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from holdtight import (
    AsyncLocks,
    LeaseLost,
    Locks,
    LockTimeout,
    LossReason,
    NotPermitted,
    NotSupported,
    QuorumNotReached,
)
from tests.faults.clients import OpenClient, start
from tests.faults.quorum import Nodes, StartNodes, votes_of
from tests.support.processes import wait_for


def test_a_lock_is_held_on_a_majority_and_its_renewals_heal_towards_all(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls, ttl=3)
    lease = client.acquire("a")
    assert len(lease.nodes) >= 3
    assert set(lease.nodes) <= set(nodes.urls)
    wait_for(lambda: len(lease.nodes) == 5)
    nodes.servers[0].command("DEL", "ht:{a}")
    wait_for(lambda: all(votes_of(nodes, "a")))
    assert not lease.lost
    client.release(lease)
    wait_for(lambda: not any(votes_of(nodes, "a")))


def test_nobody_else_gets_it_and_the_waiter_does_when_it_is_free(nodes: Nodes, open_client: OpenClient) -> None:
    one, other = open_client(nodes.urls), open_client(nodes.urls)
    lease = one.acquire("a")
    assert other.try_acquire("a") is None
    with pytest.raises(LockTimeout) as raised:
        other.acquire("a", wait=0.2)
    assert raised.value.holder is not None
    waiter = start(lambda: other.acquire("a", wait=10))
    one.release(lease)
    second = waiter.result(10)
    assert second.fence > lease.fence
    other.release(second)


def test_a_release_wakes_a_waiter_before_it_would_have_looked(nodes: Nodes, open_client: OpenClient) -> None:
    from holdtight import Backoff

    one = open_client(nodes.urls)
    other = open_client(nodes.urls, retry=Backoff(first="20s", cap="20s"), ttl=60)
    lease = one.acquire("a", ttl=60)
    waiter = start(lambda: other.acquire("a", wait=30))
    wait_for(lambda: sum(bool(server.keys("ht:{a}:b")) for server in nodes.servers) >= 3)
    started = time.monotonic()
    one.release(lease)
    other.release(waiter.result(30))
    assert time.monotonic() - started < 1.5, "it looks every 2.5 s"


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_any_number_of_nodes_works_and_contenders_never_tie_for_ever(
    start_nodes: StartNodes, open_client: OpenClient, count: int
) -> None:
    nodes = start_nodes(count)
    clients = [open_client(nodes.urls, ttl=2) for _ in range(4)]
    inside = threading.Semaphore(1)
    fences: list[int] = []

    def work(client: Any) -> None:
        for _ in range(5):
            lease = client.acquire("a", wait=30)
            assert inside.acquire(blocking=False), "two are in at once"
            fences.append(lease.fence)
            inside.release()
            client.release(lease)

    for each in [start(lambda client=client: work(client)) for client in clients]:  # type: ignore[misc]
        each.result(60)
    assert fences == sorted(set(fences)), "fences rise"
    assert len(fences) == 20


def test_renew_sets_the_time_left(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls, ttl=10)
    lease: Any = client.acquire("a")
    client.call(lease.renew, 60)
    assert 50 < lease.remaining() <= 60
    client.call(lease.renew, 2)
    assert 1 < lease.remaining() <= 2
    client.release(lease)


def test_a_ttl_above_max_ttl_is_refused_also_when_renewing(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls, max_ttl=20, ttl=10)
    with pytest.raises(ValueError, match="max_ttl"):
        client.acquire("a", ttl=21)
    lease: Any = client.acquire("a")
    with pytest.raises(ValueError, match="max_ttl"):
        client.call(lease.renew, 21)
    assert not lease.lost
    client.release(lease)
    with pytest.raises(ValueError, match="max_ttl"):
        open_client(nodes.urls, max_ttl=20)


def test_readers_share_and_a_writer_is_alone(nodes: Nodes, open_client: OpenClient) -> None:
    one, other = open_client(nodes.urls), open_client(nodes.urls)
    book, elsewhere = one.locks.rwlock("book"), other.locks.rwlock("book")
    first, second = one.call(book.read().acquire), other.call(elsewhere.read().acquire)
    assert other.call(elsewhere.write().try_acquire) is None
    one.release(first)
    assert one.call(book.write().try_acquire) is None
    other.release(second)
    writer = one.call(lambda: book.write().acquire(wait=5))
    assert writer.fence > max(first.fence, second.fence)
    assert other.call(elsewhere.read().try_acquire) is None
    assert other.try_acquire("book") is None, "lock(n) and rwlock(n).write() are one claim"
    one.release(writer)


def test_readers_are_renewed_and_healed(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls, ttl=3)
    lease = client.call(client.locks.rwlock("book").read().acquire)
    wait_for(lambda: len(lease.nodes) == 5)
    nodes.servers[0].command("DEL", "ht:{book}", "ht:{book}:h", "ht:{book}:w")
    wait_for(lambda: nodes.servers[0].command("ZCARD", "ht:{book}:h") == 1)
    assert not lease.lost
    client.release(lease)


def test_the_holder_can_enter_again_if_it_is_reentrant(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls)
    lock = client.locks.lock("a", reentrant=True)

    async def entered_twice() -> tuple[Any, Any]:
        return await lock.acquire(), await lock.acquire()

    first, second = client.call(entered_twice) if hasattr(client, "run") else (lock.acquire(), lock.acquire())
    assert first.fence == second.fence
    client.release(first)
    other = open_client(nodes.urls)
    assert other.try_acquire("a") is None
    client.release(second)
    other.release(other.acquire("a", wait=5))


def test_several_are_taken_together_or_not_at_all(nodes: Nodes, open_client: OpenClient) -> None:
    one, other = open_client(nodes.urls, ttl=6), open_client(nodes.urls)
    lease = one.call(one.locks.multi("a", one.locks.rwlock("b").read(), "c").acquire)
    assert set(lease.fences) == {"a", "b", "c"}
    # Three majorities of five need not have a node in common; once they have been renewed, all nodes hold all.
    wait_for(lambda: len(lease.nodes) == 5 or lease.lost, within=20)
    lease.check()
    assert other.call(other.locks.multi("z", "c").try_acquire) is None
    other.release(other.acquire("z", wait=5))  # its votes have been given back
    one.release(lease)


def test_what_a_quorum_cannot_do_is_refused_with_the_reason(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls)
    with pytest.raises(NotSupported, match="permits"):
        client.locks.semaphore("gate", permits=3)
    lease: Any = client.acquire("a")
    with pytest.raises(NotSupported, match="node"):
        client.call(lease.detach)
    with pytest.raises(NotSupported, match="nodes"):
        client.call(lease.downgrade)
    assert not lease.lost
    client.release(lease)
    with pytest.raises(NotSupported, match="quorum"):
        client.call(client.locks.adopt, "ht1.WyJhIiwgIkFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBIl0")
    with pytest.raises(NotSupported, match="max_connections"):
        open_client(nodes.urls, max_connections=5)
    with pytest.raises(NotSupported, match="independent"):
        open_client(["memory://a", "memory://b", "memory://c"])


def test_inspect_tells_who_holds_it_on_a_majority_and_what_every_node_says(
    nodes: Nodes, open_client: OpenClient
) -> None:
    client = open_client(nodes.urls, ttl=6)
    assert not client.call(client.locks.inspect, "a").locked
    lease = client.acquire("a", label="nightly")
    wait_for(lambda: len(lease.nodes) == 5)  # otherwise the killed node may be one of only three
    nodes.servers[4].kill()
    info = client.call(client.locks.inspect, "a")
    (holder,) = info.holders
    assert (holder.owner, holder.fence, holder.label) == (lease.owner, lease.fence, "nightly")
    assert holder.pid is not None
    assert holder.entered == 1
    assert info.nodes is not None
    assert list(info.nodes) == nodes.urls
    assert "held" in info.nodes[nodes.urls[0]]
    assert "held" not in info.nodes[nodes.urls[4]]
    client.release(lease)


def test_nothing_stays_on_the_nodes_but_the_stamp(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls, ttl=5)
    lease = client.acquire("a")
    with pytest.raises(LockTimeout):
        client.acquire("a", wait=0.1)
    client.release(lease)
    for server in nodes.servers:
        left = server.time_left()
        assert left.pop("ht:stamp") == -1
        assert left.pop("ht:audit") > 0  # the nodes were blessed
        records = [left.pop(key) for key in list(left) if key.startswith("ht:client:")]
        assert all(0 <= ms <= 160_000 for ms in records), "the longest ttl and 40 s"
        assert all(0 <= ms <= 60_000 for ms in left.values()), left


def test_too_few_nodes_at_the_start_are_named(open_client: OpenClient, start_nodes: StartNodes) -> None:
    nodes = start_nodes()
    for server in nodes.servers[:3]:
        server.kill()
    client = open_client(nodes.urls)
    started = time.monotonic()
    with pytest.raises(QuorumNotReached) as raised:
        client.acquire("a", wait=0.5)
    assert time.monotonic() - started < 2.5
    assert list(raised.value.nodes) == nodes.urls
    assert "refused" in raised.value.nodes[nodes.urls[0]]
    assert "refused" not in raised.value.nodes[nodes.urls[4]]
    assert not any(votes_of(Nodes(nodes.servers[3:]), "a"))


def test_a_majority_that_does_not_let_us_in_is_told_as_one_server_would_be(
    nodes: Nodes, open_client: OpenClient
) -> None:
    """A wrong password is not an outage: the client does not retry until the time to connect is over."""
    everything = ("~*", "&*", "+@all")
    for index, server in enumerate(nodes.servers):
        server.add_user("app", "other" if index < 2 else "right", *everything)
    client = open_client(nodes.urls, credentials=("app", "right"))
    client.release(client.acquire("a"))
    nodes.servers[2].add_user("app", "other", *everything)
    late = open_client(nodes.urls, credentials=("app", "right"))
    for _ in range(3):  # also while the breaker rests these nodes
        with pytest.raises(NotPermitted, match="WRONGPASS"):
            late.acquire("a")


def test_a_timeout_says_that_the_caller_itself_is_the_holder(nodes: Nodes) -> None:
    with Locks(nodes.urls, ttl=30) as locks:
        lease = locks.lock("mine").acquire()
        with pytest.raises(LockTimeout, match="held by this very thread, which took it"):
            locks.lock("mine").acquire(wait=0.1)
        lease.release()

    async def main() -> None:
        async with AsyncLocks(nodes.urls, ttl=30) as locks:
            lease = await locks.lock("mine").acquire()
            with pytest.raises(LockTimeout, match="held by this very task, which took it"):
                await locks.lock("mine").acquire(wait=0.1)
            await lease.release()

    asyncio.run(main())


def test_a_lease_is_released_on_all_nodes_by_its_block(nodes: Nodes) -> None:
    async def use() -> None:
        async with AsyncLocks(nodes.urls, ttl=10) as locks:
            async with await locks.lock("a").acquire() as lease:
                lease.check()
                with pytest.raises(LockTimeout, match="held by this very task, in a block"):
                    await locks.lock("a").acquire(wait=0)
            with pytest.raises(LeaseLost):  # noqa: PT012
                async with await locks.multi("a", "b").acquire() as lease:
                    lease.tenures[1].lose(LossReason.FORCED)
                    await asyncio.wait_for(asyncio.Event().wait(), 10)

    with Locks(nodes.urls, ttl=10) as locks:
        with locks.lock("a").acquire() as lease:
            lease.check()
        wait_for(lambda: not any(votes_of(nodes, "a")))
        asyncio.run(use())
        with locks.multi("a", "b").acquire(wait=10) as lease:
            lease.check()
    wait_for(lambda: not any(votes_of(nodes, "a")))
