"""Held leases and waiters live through a failover: a crash, an orderly one, and a master that hangs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from holdtight import Locks, LossReason
from holdtight.events import Event, FailedOver
from tests.faults.clients import OpenClient, start, waiting
from tests.support.busy import Delay
from tests.support.leases import renewed
from tests.support.processes import StartChild, wait_for
from tests.support.sentinels import Topology
from tests.support.servers import RunningServer
from tests.topology.many import all_renewed, give_back, take_many

LIMIT = 1.0
"""Seconds that the contract allows, from when one Sentinel names the new master."""


def crash(topology: Topology) -> RunningServer:
    old = topology.master
    old.kill()
    return old


def hang(topology: Topology) -> RunningServer:
    old = topology.master
    old.pause()
    return old


FAILOVERS: dict[str, Callable[[Topology], RunningServer]] = {
    "crash": crash,
    "orderly": lambda topology: topology.failover(),
    "hung": hang,
}


@pytest.fixture(params=FAILOVERS)
def fail_over(request: pytest.FixtureRequest) -> Callable[[Topology], RunningServer]:
    return FAILOVERS[request.param]


def replaced(topology: Topology, old: RunningServer) -> float:
    """Waits until one Sentinel names another master. Returns that moment."""
    wait_for(lambda: any(each.named() != old.port for each in topology.sentinels), what="another master")
    return time.monotonic()


def on_all_replicas(topology: Topology, name: str) -> None:
    """Waits until the replicas have a lock, and its waiters."""
    keys = (f"ht:{{{name}}}", f"ht:{{{name}}}:q")
    there = topology.master.command("EXISTS", *keys)
    for replica in topology.replicas:
        replica.wait_for("EXISTS", *keys, be=there)


def forgotten(topology: Topology, name: str) -> None:
    """As if the replicas had not received this grant yet when the master failed."""
    on_all_replicas(topology, name)
    for replica in topology.replicas:
        with replica.connect() as client:
            client.call("CONFIG", "SET", "replica-read-only", "no")
            assert client.call("DEL", f"ht:{{{name}}}") == 1
            client.call("CONFIG", "SET", "replica-read-only", "yes")


def test_leases_and_waiters_live_through_a_failover(
    topology: Topology, open_client: OpenClient, fail_over: Callable[[Topology], RunningServer]
) -> None:
    holder, other = open_client(topology.url, ttl=30), open_client(topology.url, ttl=30)
    heard: list[Event] = []
    holder.locks.events.subscribe(lambda event: heard.append(event) if isinstance(event, FailedOver) else None)
    kept, lost = holder.acquire("kept"), holder.acquire("lost")
    fence = kept.fence
    waiter = start(lambda: other.acquire("kept", wait=60))
    wait_for(lambda: waiting(topology.master, "kept") == 1)
    on_all_replicas(topology, "kept")
    forgotten(topology, "lost")
    before = topology.master
    assert kept.nodes == (f"redis://127.0.0.1:{before.port}/0",)

    old = fail_over(topology)
    since = replaced(topology, old)
    delay = Delay(os.getpid(), *(server.pid for server in topology.servers))
    delay.check(lambda: lost.lost, since, within=LIMIT, what="the lost lease to be told")
    assert lost.reason is LossReason.EXPIRED
    wait_for(lambda: kept.remaining() > 28, within=LIMIT, what="the surviving lease to be renewed at once")
    taken = time.monotonic()
    for client in (holder, other):
        client.release(client.acquire("free", wait=10))
    assert time.monotonic() - taken < LIMIT
    now = topology.master
    assert now is not old
    assert now.keys("ht:{kept}") == ["ht:{kept}"]
    assert kept.nodes == (f"redis://127.0.0.1:{now.port}/0",)
    assert (kept.lost, kept.fence) == (False, fence)
    wait_for(lambda: heard, what="the event")
    assert [(event.server, event.by) for event in heard if isinstance(event, FailedOver)] == [
        (f"redis://127.0.0.1:{old.port}/0", f"redis://127.0.0.1:{now.port}/0")
    ]

    wait_for(lambda: waiting(now, "kept") == 1, what="the waiter to be in line on the new master")
    assert not waiter.done()
    holder.release(kept)
    lease = waiter.result(10)
    assert lease.fence > fence
    other.release(lease)


@pytest.mark.parametrize("seconds", [3, pytest.param(10, marks=pytest.mark.long)])
def test_an_old_master_that_lives_gets_no_write_of_ours_after_an_orderly_failover(
    topology: Topology, open_client: OpenClient, seconds: int
) -> None:
    topology.periods(publish_period=max(2000, 300 * seconds))  # the old master stays one for four times as long
    client = open_client(topology.url, ttl=3)
    kept = client.acquire("kept")
    parked = open_client(topology.url)
    waiter = start(lambda: parked.acquire("kept", wait=60))
    wait_for(lambda: waiting(topology.master, "kept") == 1)
    on_all_replicas(topology, "kept")
    old = topology.failover()
    wait_for(lambda: not topology.ours(old), within=LIMIT, what="all connections to leave")
    old.command("CONFIG", "RESETSTAT")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        client.release(client.acquire("work", wait=10))
        time.sleep(0.02)
    assert old.info("replication")["role"] == "master", "it takes writes all the time, and says nothing"
    done = old.info("commandstats")
    assert not [name for name in done if name.partition("_")[2] in ("evalsha", "eval", "set", "hello")]
    assert not topology.ours(old)
    assert not kept.lost
    client.release(kept)
    parked.release(waiter.result(10))


def test_a_client_that_stays_at_the_old_master_until_it_errs_shares_the_lock_with_another(topology: Topology) -> None:
    """What all this is for: the same failover, seen by a client that nobody tells."""
    topology.periods(publish_period=2500)
    with Locks(topology.master.url, ttl=3) as stays, Locks(topology.url, ttl=3) as follows:
        first = stays.lock("thing").acquire()
        on_all_replicas(topology, "thing")
        old = topology.failover()
        second = follows.lock("thing").acquire(wait=15)
        renewed(first)
        assert second.fence > first.fence
        assert min(first.remaining(), second.remaining()) > 0, "two hold it at once, and neither is told"
        assert old.info("replication")["role"] == "master"
        second.release()
        first.release()


@pytest.mark.long
def test_ten_thousand_leases_are_renewed_at_once(topology: Topology, open_client: OpenClient) -> None:
    client = open_client(topology.url, ttl=60)
    leases = take_many(client)
    wait_for(lambda: topology.replicas[0].command("DBSIZE") >= len(leases))
    deadlines = [lease.tenure.deadline for lease in leases]
    topology.failover()
    all_renewed(leases, deadlines, time.monotonic(), *(server.pid for server in topology.servers))
    give_back(client, leases)


def fork_and_lock(url: str) -> None:
    with Locks(url, ttl=5) as locks, locks.lock("parents", wait=5) as lease:
        child = os.fork()
        if not child:
            with locks.lock("childs", wait=5) as own:
                print("child", lease.lost, own.lost, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        lease.check()
        print("parent", lease.lost, flush=True)


def test_a_forked_child_asks_the_sentinels_itself(topology: Topology, start_child: StartChild) -> None:
    child = start_child(fork_and_lock, topology.url)
    child.expect("child True False")
    child.expect("parent False")
