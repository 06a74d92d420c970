"""`single_flight` when the process that computes is killed or paused, a caller is cancelled, or a reply is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdtight import AsyncLocks, Locks, NotSupported
from holdtight.stores.redis import script
from holdtight.stores.redis.flights import DROP, LAND
from tests.faults.clients import asks
from tests.faults.jobs import flight_program
from tests.faults.quorum import StartNodes
from tests.support.processes import StartChild, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


@pytest.fixture(autouse=True)
def known_scripts(private_server: RunningServer) -> None:
    """A reply that is lost is that of the script, not NOSCRIPT."""
    for each in (LAND, DROP):
        private_server.command("SCRIPT", "LOAD", each.body)


def test_the_next_computes_when_the_leader_is_killed_and_a_paused_one_stores_nothing(
    private_server: RunningServer, start_child: StartChild
) -> None:
    url = private_server.url
    killed, paused, last = (start_child(flight_program, url, word) for word in ("killed", "paused", "last"))
    for child in (killed, paused, last):
        child.expect("ready", within=60)
    killed.send("slowly")
    killed.expect("computing")
    paused.send("slowly")
    with Locks(url) as locks:
        wait_for(lambda: locks.inspect("value").waiters)
        killed.kill()
        started = time.monotonic()
        paused.expect("computing")
        assert time.monotonic() - started < 20, "lease_ttl is 1 s"
        paused.pause()
        last.send("quickly")
        last.expect("computing")
        last.expect("got last")
        paused.resume()
        paused.send("go on")
        paused.expect("got paused")  # its own value, for itself alone
        last.send("again")
        last.expect("got last")
        paused.send("again")
        paused.expect("got last")


@pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])
def test_a_lost_reply_to_the_landing_is_asked_for_again(private_server: RunningServer, proxy: Proxy, cut: bool) -> None:
    with Locks(proxy.url) as locks:
        lost = proxy.swallow_reply(asks(LAND), cut=cut)
        flight = locks.single_flight("value", ttl=60)
        assert flight.get_or_create(lambda: 1) == 1
        lost.wait()
        assert flight.get_or_create(lambda: 2) == 1


def test_a_value_that_cannot_be_stored_goes_to_the_call_that_computed_it(
    private_server: RunningServer, proxy: Proxy
) -> None:
    with Locks(proxy.url) as locks:
        flight = locks.single_flight("value", ttl=60)
        for _ in range(3):
            proxy.swallow_request(asks(LAND), cut=True)
        assert flight.get_or_create(lambda: 1) == 1
        assert flight.get_or_create(lambda: 2) == 2


async def cancelling(url: str) -> None:
    async with AsyncLocks(url) as locks:
        computed, go = list[int](), asyncio.Event()

        @locks.single_flight("value", ttl=60)
        async def value() -> int:
            computed.append(1)
            await go.wait()
            return len(computed)

        callers = [asyncio.create_task(value()) for _ in range(3)]
        while not computed:
            await asyncio.sleep(0.001)
        for caller in callers[:2]:  # the first caller too
            caller.cancel()
        await asyncio.wait(callers[:2])
        go.set()
        assert await callers[2] == 1, "somebody still waited, so it went on"
        await value.invalidate()
        go.clear()
        only = asyncio.create_task(value())
        while len(computed) < 2:
            await asyncio.sleep(0.001)
        only.cancel()
        await asyncio.wait([only])
        go.set()
        assert await value() == 3, "nobody waited for the second: it was cancelled, and is no answer"


def test_a_flight_is_cancelled_when_no_caller_waits_any_more(private_server: RunningServer) -> None:
    asyncio.run(cancelling(private_server.url))


async def closing(url: str) -> None:
    ended = list[str]()
    locks = AsyncLocks(url)

    @locks.single_flight("value", ttl=60, stale=60, refresh="background")
    async def value(first: bool) -> int:
        try:
            await asyncio.sleep(0 if first else 3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return 1

    async def at_it() -> None:
        while not (await locks.inspect("value")).locked:
            await asyncio.sleep(0.001)

    await value(True)
    await value.expire(True)
    await value(False)
    await asyncio.wait_for(at_it(), 20)
    await locks.aclose()
    for _ in range(2000):
        if ended:
            break
        await asyncio.sleep(0.001)
    assert ended == ["cancelled"]


def test_closing_ends_refreshes_in_the_background(private_server: RunningServer) -> None:
    asyncio.run(closing(private_server.url))


def test_a_quorum_refuses(start_nodes: StartNodes) -> None:
    with Locks(start_nodes(3).urls) as locks, pytest.raises(NotSupported, match="share no data"):
        locks.single_flight("value", ttl=60)


async def stampede(url: str, tasks: int) -> None:
    computed = list[int]()
    async with AsyncLocks(url) as locks:

        @locks.single_flight("cold", ttl=60)
        async def value() -> int:
            computed.append(1)
            await asyncio.sleep(0.05)
            return 7

        assert set(await asyncio.gather(*(value() for _ in range(tasks)))) == {7}
        assert set(await asyncio.gather(*(value() for _ in range(50)))) == {7}
    assert computed == [1]


def test_a_stampede_of_tasks_computes_once_and_asks_little(private_server: RunningServer, proxy: Proxy) -> None:
    asyncio.run(stampede(proxy.url, 500))
    assert proxy.count(b":v") < 200, "50 hits ask twice at most; 500 misses ask a few times"


async def late_joiner(url: str, proxy: Proxy) -> None:
    """The value has landed and its flight has not ended yet when another client invalidates it."""
    async with AsyncLocks(proxy.url) as locks, AsyncLocks(url) as other:
        computed = list[int]()

        @locks.single_flight("value", ttl=60)
        async def value() -> int:
            computed.append(1)
            return len(computed)

        await value()  # all connections are there
        await value.invalidate()
        held = proxy.hold_request(asks(script.RELEASE))
        first = asyncio.create_task(value())
        await asyncio.to_thread(held.wait)
        await other.single_flight("value", ttl=60)(value.__wrapped__).invalidate()  # type: ignore[attr-defined]
        second = asyncio.create_task(value())
        await asyncio.sleep(0.2)  # it has joined, if it does: nothing tells
        held.release()
        assert await first == 2
        assert await second == 3, "older than the invalidation"


def test_a_call_after_an_invalidation_gets_nothing_from_a_flight_that_has_landed(
    private_server: RunningServer, proxy: Proxy
) -> None:
    asyncio.run(late_joiner(private_server.url, proxy))
