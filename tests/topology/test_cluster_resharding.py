"""What resharding costs leases and waiters: nothing, and a moment."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import pytest

from holdtight import Unavailable
from tests.faults.clients import OpenClient, start, waiting
from tests.support.clusters import Cluster, slot_of
from tests.support.processes import wait_for

MOVED_LIMIT = 0.5
"""Seconds within which a moved slot serves its waiters."""


def held_for(seconds: float, lease: object) -> None:
    """AssertionError if the lease is lost meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not lease.lost, lease.reason  # type: ignore[attr-defined]
        time.sleep(0.02)


@pytest.mark.parametrize("stall", [(3.6, 3.6), pytest.param((5.0, 4.0), marks=pytest.mark.long)])
def test_a_lease_is_kept_while_the_move_of_its_slot_stalls(
    cluster: Cluster, open_client: OpenClient, stall: tuple[float, float]
) -> None:
    source, target = cluster.masters[:2]
    name = cluster.name_on(source)
    client = open_client(cluster.url, ttl=3)
    lease = client.acquire(name)
    with cluster.moving(slot_of(name), target) as move:
        held_for(stall[0], lease)
        move.move(f"ht:{{{name}}}")
        held_for(stall[1], lease)
        assert target.command("CLUSTER", "COUNTKEYSINSLOT", slot_of(name)) == 1
        fresh = open_client(cluster.url, ttl=3)
        with pytest.raises(Unavailable, match="TRYAGAIN"):
            fresh.acquire(name, wait=1)
    held_for(1.5, lease)
    assert lease.nodes == (f"redis://127.0.0.1:{target.port}/0",)
    client.release(lease)
    client.release(fresh.try_acquire(name) or pytest.fail("it is free"))


def test_a_release_that_is_refused_while_the_move_stalls_takes_effect_afterwards(
    cluster: Cluster, open_client: OpenClient
) -> None:
    source, target = cluster.masters[:2]
    name = cluster.name_on(source)
    client = open_client(cluster.url, ttl=60)
    lease = client.acquire(name)
    with cluster.moving(slot_of(name), target) as move:
        move.move(f"ht:{{{name}}}")
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="TRYAGAIN"):
            client.release(lease)
        assert time.monotonic() - begun < 10, "it takes a second at most"
        assert target.command("CLUSTER", "COUNTKEYSINSLOT", slot_of(name)) == 1
    other = open_client(cluster.url)
    other.release(other.acquire(name, wait=5))  # its ttl has 50 seconds left


def test_a_waiter_follows_its_slot_and_gets_the_lock_there(cluster: Cluster, open_client: OpenClient) -> None:
    source, target = cluster.masters[:2]
    name = cluster.name_on(source)
    holder, other = open_client(cluster.url, ttl=30), open_client(cluster.url, ttl=30)
    lease = holder.acquire(name)
    waiters: list[Future[object]] = [start(lambda: other.acquire(name, wait=60)) for _ in range(2)]
    wait_for(lambda: waiting(source, name) == 2)
    with cluster.moving(slot_of(name), target):
        pass
    moved = time.monotonic()
    wait_for(lambda: waiting(target, name) == 2)
    time.sleep(max(0.0, moved + MOVED_LIMIT - time.monotonic()))
    holder.release(lease)
    done = time.monotonic()
    wait_for(lambda: any(each.done() for each in waiters), within=MOVED_LIMIT * 4, what="the hand-over")
    assert time.monotonic() - done < MOVED_LIMIT
    first = next(each for each in waiters if each.done()).result()
    other.release(first)  # type: ignore[arg-type]
    second = next(each for each in waiters if each.result(10) is not first).result()
    other.release(second)  # type: ignore[arg-type]


def is_longer(found: list[int], than: int) -> bool:
    return len(found) > than


def test_locks_are_taken_and_given_back_all_the_while(cluster: Cluster, open_client: OpenClient) -> None:
    """A slot goes to and fro while a client works in it: nothing is lost, and nothing is held twice."""
    source, target = cluster.masters[:2]
    name = cluster.name_on(source)
    clients = [open_client(cluster.url, ttl=3) for _ in range(2)]
    inside: list[int] = []
    fences: list[int] = []
    over = False

    def work(number: int) -> int:
        count = 0
        while not over:
            lease = clients[number].acquire(name, wait=20)
            inside.append(number)
            assert inside == [number], "two are inside"
            fences.append(lease.fence)
            inside.remove(number)
            with suppress(Unavailable):  # the slot is on its way: the keeper goes on
                clients[number].release(lease)
            count += 1
        return count

    workers = [start(partial(work, number)) for number in range(2)]
    try:
        for round_ in range(3):
            with cluster.moving(slot_of(name), (target, source)[round_ % 2]):
                time.sleep(0.3)
            enough = len(fences) + 5
            wait_for(partial(is_longer, fences, enough), what="them to go on")
    finally:
        over = True
    assert sum(each.result(30) for each in workers) == len(fences)
    assert sorted(set(fences)) == fences, "fences are unique and rise"
