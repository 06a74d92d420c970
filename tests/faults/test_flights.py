"""`single_flight` when the process that computes is killed or paused, a caller is cancelled, or a reply is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks, NotPermitted, NotSupported, Unavailable
from holdtight.stores.redis import script
from holdtight.stores.redis.flights import DROP, LAND
from tests.faults.clients import Client, OpenClient, asks
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


def test_an_interrupt_is_no_answer_and_the_next_in_line_computes(private_server: RunningServer) -> None:
    with Locks(private_server.url) as locks, Locks(private_server.url) as others:
        begun, go = threading.Event(), threading.Event()

        def interrupted() -> int:
            begun.set()
            assert go.wait(30)
            raise KeyboardInterrupt

        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(locks.single_flight("value", ttl=60).get_or_create, interrupted)
            assert begun.wait(30)
            here = pool.submit(locks.single_flight("value", ttl=60).get_or_create, lambda: 2)
            there = pool.submit(others.single_flight("value", ttl=60).get_or_create, lambda: 2)
            wait_for(lambda: locks.inspect("value").waiting)
            go.set()
            with pytest.raises(KeyboardInterrupt):
                first.result(30)
            assert (here.result(30), there.result(30)) == (2, 2)


who: ContextVar[str] = ContextVar("who", default="nobody")


async def in_whose_context(url: str) -> str:
    async with AsyncLocks(url) as locks:
        go = asyncio.Event()

        @locks.single_flight("value", ttl=60)
        async def value() -> str:
            await go.wait()
            return who.get()

        callers = list[asyncio.Task[str]]()
        for name in ("first", "second"):
            who.set(name)
            callers.append(asyncio.create_task(value()))
            while not (await locks.inspect("value")).locked:
                await asyncio.sleep(0.001)
        go.set()
        first, second = await asyncio.gather(*callers)
        assert first == second
        return first


def test_a_flight_runs_in_the_context_of_its_first_caller(private_server: RunningServer) -> None:
    assert asyncio.run(in_whose_context(private_server.url)) == "first"


def test_the_server_alone_says_how_old_a_value_is(private_server: RunningServer, open_client: OpenClient) -> None:
    """The time that is left at the server decides, whatever time has passed here."""
    client, computed = open_client(private_server.url), list[int]()
    flight = made(client, computed, ttl=600, stale=300)
    client.call(flight)
    for left, age, state in ((890, 10, "fresh"), (310, 590, "fresh"), (290, 610, "stale")):
        private_server.command("PEXPIRE", "ht:{value}:v", left * 1000)
        peek = client.call(flight.peek)
        assert peek.state == state
        assert age <= peek.age < age + 9
        client.call(flight)
        assert len(computed) == (1 if state == "fresh" else 2)


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
    assert ended == ["cancelled"]
    async with AsyncLocks(url) as others:
        assert not (await others.inspect("value")).locked, "the loop may end now, so the lock must be free already"


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


async def warm(url: str) -> None:
    async with AsyncLocks(url) as locks:

        @locks.single_flight("warm", ttl=60)
        async def value() -> int:
            return 7

        await value()
        assert set(await asyncio.gather(*(value() for _ in range(500)))) == {7}


def test_many_tasks_on_a_warm_key_share_their_looks(private_server: RunningServer, proxy: Proxy) -> None:
    """What a look has found may be older than a call that came while it was under way: those look once more."""
    asyncio.run(warm(proxy.url))
    assert proxy.count(b"\r\nPTTL\r\n") <= 6, (
        "two looks of the first call, of which each asks twice, and two of the others"
    )


def made(client: Client, computed: list[int], **options: Any) -> Any:
    def compute() -> int:
        computed.append(1)
        return len(computed)

    async def coloured() -> int:
        return compute()

    job = client.locks.single_flight("value", **{"ttl": 60, **options})
    return job(compute if isinstance(client.locks, Locks) else coloured)


def test_a_hit_connects_again_and_is_unavailable_on_a_silent_server(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    client, computed = open_client(proxy.url), list[int]()
    value = made(client, computed)
    for _ in range(3):
        assert client.call(value) == 1
        proxy.cut()
    assert client.call(value) == 1
    proxy.black_hole()
    with pytest.raises(Unavailable, match="in time"):
        client.call(value)
    assert computed == [1]


def test_a_hit_that_the_server_refuses_says_so(private_server: RunningServer, open_client: OpenClient) -> None:
    private_server.command("ACL", "SETUSER", "reader", "on", ">secret", "allkeys", "allchannels", "+@all")
    client, computed = open_client(private_server.url.replace("redis://", "redis://reader:secret@")), list[int]()
    value = made(client, computed)
    assert client.call(value) == client.call(value) == 1
    private_server.command("ACL", "SETUSER", "reader", "-pttl")
    with pytest.raises(NotPermitted, match="pttl"):
        client.call(value)
    assert computed == [1]


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
        await other.single_flight("value", ttl=60)(value.__wrapped__).invalidate()
        second = asyncio.create_task(value())
        await asyncio.sleep(0.2)  # it has joined, if it does: nothing tells
        held.release()
        assert await asyncio.wait_for(first, 60) == 2
        assert await asyncio.wait_for(second, 60) == 3, "older than the invalidation"


def test_a_call_after_an_invalidation_gets_nothing_from_a_flight_that_has_landed(
    private_server: RunningServer, proxy: Proxy
) -> None:
    asyncio.run(late_joiner(private_server.url, proxy))
