"""A renewal that a caller asks for is a vote, and can add the vote of a node to a lease. Whatever
happens in between, the release gives all votes back."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks, NotOwner, QuorumNotReached
from holdtight.aio.quorum_driver import FanDriver as AsyncFanDriver
from holdtight.base.plan import Fan
from holdtight.sync.quorum_driver import FanDriver
from tests.faults.clients import OpenClient, start
from tests.faults.quorum import Nodes, Side, StartNodes, votes_of
from tests.support.processes import wait_for


def free(nodes: Nodes, name: str) -> bool:
    return not any(votes_of(nodes, name))


def test_votes_of_a_renewal_that_come_after_the_release_of_another_thread_are_refused(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()
    asked = FanDriver._fan  # pyright: ignore[reportPrivateUsage]

    def held_up(driver: FanDriver, fan: Fan) -> Any:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert released.wait(10)
        return asked(driver, fan)

    with Locks(nodes.urls, ttl=30) as locks:
        locks.lock("a").acquire().release()
        lease = locks.lock("a").acquire()
        monkeypatch.setattr(FanDriver, "_fan", held_up)
        renewing = start(lease.renew)
        assert begun.wait(10)
        lease.release()
        released.set()
        with pytest.raises(NotOwner):
            renewing.result(10)
        wait_for(lambda: free(nodes, "a"))


def test_a_release_during_a_renewal_says_that_the_votes_were_gone(nodes: Nodes) -> None:
    """While a renewal is under way, the release withdraws: each node must say whether it had the vote."""
    with Locks(nodes.urls, ttl=30) as locks:
        lease = locks.lock("a").acquire()
        tenure: Any = lease.tenure
        tenure.renewal_begins([time.time_ns() // 1000 + 2_000_000] * len(nodes.servers))
        for server in nodes.servers[2:]:
            with server.connect() as client:
                client.call("DEL", "ht:{a}")
        with pytest.raises(NotOwner, match="its time ran out"):
            lease.release()
        wait_for(lambda: free(nodes, "a"))


def test_votes_of_a_renewal_that_come_after_the_release_of_another_task_are_refused(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = AsyncFanDriver._fan  # pyright: ignore[reportPrivateUsage]

    async def scene() -> None:
        begun, released = asyncio.Event(), asyncio.Event()

        async def held_up(driver: AsyncFanDriver, fan: Fan) -> Any:
            if asyncio.current_task() is renewing:
                begun.set()
                await released.wait()
            return await asked(driver, fan)

        async with AsyncLocks(nodes.urls, ttl=30) as locks:
            lease = await locks.lock("a").acquire()
            monkeypatch.setattr(AsyncFanDriver, "_fan", held_up)
            renewing = asyncio.create_task(lease.renew())
            await begun.wait()
            await lease.release()
            released.set()
            with pytest.raises(NotOwner):
                await renewing
        wait_for(lambda: free(nodes, "a"))

    asyncio.run(scene())


def test_renewals_and_releases_of_two_threads_leave_no_vote_behind(nodes: Nodes) -> None:
    with Locks(nodes.urls, ttl=30) as locks:
        for number in range(40):
            name = f"a-{number}"
            lease = locks.lock(name).acquire()
            both = threading.Barrier(2)

            def renew(lease: Any = lease, both: threading.Barrier = both) -> None:
                both.wait(10)
                lease.renew()

            renewing = start(renew)
            both.wait(10)
            lease.release()
            assert isinstance(renewing.exception(10), NotOwner | None)
        wait_for(lambda: all(free(nodes, f"a-{number}") for number in range(40)))


def test_a_node_that_is_healed_by_a_renewal_that_fails_is_told_of_the_release(
    start_nodes: StartNodes, open_client: OpenClient
) -> None:
    nodes = start_nodes(3)
    with Side(nodes) as side:
        client = open_client(side.urls, ttl=30)
        nodes.servers[2].command("SET", "ht:{a}", b"x1-" + b"s" * 24 + b"1700000000000000", "PX", 100_000)
        lease = client.acquire("a", renew=False)
        nodes.servers[2].command("DEL", "ht:{a}")
        side.cut_off([0, 1], silently=True)
        with pytest.raises(QuorumNotReached):
            client.call(lease.renew)  # type: ignore[attr-defined]
        assert votes_of(nodes, "a")[2], "this is what the test is about"
        side.heal()
        client.release(lease)
        wait_for(lambda: free(nodes, "a"))
