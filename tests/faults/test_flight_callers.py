"""`single_flight` and its callers in one process: they share what ends a flight, they come and go, they hold locks."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdtight import AsyncLocks, FlightFailed, Locks, NotPermitted, Unavailable
from holdtight.stores.redis import script
from holdtight.sync.flights import Registry
from tests.faults.clients import asks, load_scripts
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

MANY = 40


async def joined_and_cancelled(url: str) -> None:
    async with AsyncLocks(url) as locks:
        begun, go, computed = asyncio.Event(), asyncio.Event(), list[int]()

        @locks.single_flight("value", ttl=60, stale=60, refresh="background")
        async def value() -> int:
            computed.append(1)
            if len(computed) > 1:
                begun.set()
                await go.wait()
            return len(computed)

        await value()
        await value.expire()
        await value()
        await asyncio.wait_for(begun.wait(), 30)
        joined = asyncio.create_task(value.refresh())
        await asyncio.sleep(0)  # it waits for the flight now
        joined.cancel()
        await asyncio.wait([joined])
        go.set()

        async def refreshed() -> None:
            while (peek := await value.peek()) is None or peek.value != 2:
                await asyncio.sleep(0.001)

        await asyncio.wait_for(refreshed(), 30)


def test_a_refresh_in_the_background_goes_on_when_a_caller_that_joined_it_is_cancelled(
    private_server: RunningServer,
) -> None:
    asyncio.run(joined_and_cancelled(private_server.url))


def test_a_refresh_in_the_background_at_close_goes_on_until_its_value_is_stored(private_server: RunningServer) -> None:
    """Nothing can end a thread, and `close` does not wait for it. Its lease is held like any other at close."""
    begun, go, computed = threading.Event(), threading.Event(), list[int]()
    with Locks(private_server.url) as locks:

        @locks.single_flight("value", ttl=60, stale=60, refresh="background")
        def value() -> int:
            computed.append(1)
            if len(computed) > 1:
                begun.set()
                assert go.wait(60)
            return len(computed)

        value()
        value.expire()
        assert value() == 1
        assert begun.wait(30)
    go.set()
    with Locks(private_server.url) as others:
        wait_for(lambda: not others.inspect("value").locked, what="the lock to be free")
        flight = others.single_flight("value", ttl=60, stale=60)
        assert flight.get_or_create(lambda: 3) == 2
    wait_for(lambda: not any(each.name == "holdtight-refresh" for each in threading.enumerate()))


async def busily(url: str) -> None:
    async with AsyncLocks(url) as locks:
        computed = list[int]()

        @locks.single_flight("value", ttl=60, stale=60, refresh="background")
        async def value() -> int:
            computed.append(1)
            return len(computed)

        async def call_again_and_again() -> None:
            for _ in range(50):
                if len(computed) == 1:
                    await value()

        await value()
        await value.expire()
        await asyncio.gather(*(call_again_and_again() for _ in range(32)))
        assert len(computed) == 2


def test_a_refresh_in_the_background_goes_on_while_callers_come_and_go(private_server: RunningServer) -> None:
    asyncio.run(busily(private_server.url))


async def unreachable(proxy: Proxy) -> float:
    async with AsyncLocks(proxy.url, connect_timeout=0.5) as locks:

        @locks.single_flight("value", ttl=60)
        async def value() -> int:
            return 1

        await value()
        proxy.black_hole()
        started = time.monotonic()
        errors = await asyncio.gather(*(value() for _ in range(MANY)), return_exceptions=True)
        assert {type(error) for error in errors} == {Unavailable}
        assert len(set(map(id, errors))) == MANY, "each has its own, with its own traceback"
        return time.monotonic() - started


def test_tasks_that_wait_for_one_look_learn_together_that_the_server_is_unreachable(
    private_server: RunningServer, proxy: Proxy
) -> None:
    assert asyncio.run(unreachable(proxy)) < 0.5 * MANY, "one after another, each would wait for 0.5 s or more"


@pytest.fixture
def reader(private_server: RunningServer, proxy: Proxy) -> str:
    """The URL of a login that may read values and run no script."""
    load_scripts(private_server)
    private_server.command("ACL", "SETUSER", "reader", "on", ">secret", "allkeys", "allchannels", "+@all", "-evalsha")
    return proxy.url.replace("redis://", "redis://reader:secret@")


async def refused_together(url: str, proxy: Proxy) -> None:
    async with AsyncLocks(url) as locks:
        held = proxy.hold_request(b"EVALSHA")
        value = locks.single_flight("value", ttl=60)

        async def one() -> int:
            return 1

        tasks = [asyncio.create_task(value.get_or_create(one)) for _ in range(MANY)]
        await asyncio.to_thread(held.wait)
        held.release()
        assert {type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)} == {NotPermitted}


def threads_refused_together(url: str, proxy: Proxy) -> None:
    with Locks(url) as locks, ThreadPoolExecutor(MANY) as pool:
        held = proxy.hold_request(b"EVALSHA")
        value = locks.single_flight("value", ttl=60)
        calls = [pool.submit(value.get_or_create, lambda: 1) for _ in range(MANY)]
        held.wait()
        flights = locks.flights(Registry)._flights
        wait_for(lambda: len(flights["value"].sleepers) == MANY - 1)
        held.release()
        assert {type(each.exception(30)) for each in calls} == {NotPermitted}


@pytest.mark.parametrize("colour", ["sync", "asyncio"])
def test_what_keeps_a_flight_from_computing_is_told_to_all_its_callers(reader: str, proxy: Proxy, colour: str) -> None:
    if colour == "sync":
        threads_refused_together(reader, proxy)
    else:
        asyncio.run(refused_together(reader, proxy))
    assert proxy.count(b"EVALSHA") < 10, "one after another, each of them would ask"


def test_threads_that_cannot_be_started_leave_no_flight_behind(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Locks(private_server.url) as locks:
        computed = list[int]()

        @locks.single_flight("value", ttl=60, stale=60, refresh="background", error_ttl=0)
        def value() -> int:
            computed.append(1)
            return len(computed)

        value()
        value.expire()
        start = threading.Thread.start

        def no_more(thread: threading.Thread) -> None:
            if thread.name == "holdtight-refresh":
                raise RuntimeError("can't start new thread")
            start(thread)

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_more)
            for _ in range(6):
                assert value() == 1, "the stale value"
        value()
        wait_for(lambda: (peek := value.peek()) is not None and peek.value == 2)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_be_shown_is_still_the_callers_own() -> None:
    with Locks("memory://unspeakable") as locks:

        @locks.single_flight("value", ttl=60, error_ttl=60)
        def value() -> int:
            raise Unspeakable

        @locks.once("job", at_least=60, after_failure="retry")
        def job() -> None:
            raise Unspeakable

        with pytest.raises(Unspeakable):
            value()
        with pytest.raises(FlightFailed, match="Unspeakable"):
            value()
        with pytest.raises(Unspeakable):
            job()


async def own_exceptions() -> None:
    async with AsyncLocks("memory://own") as locks:
        go = asyncio.Event()

        @locks.single_flight("value", ttl=60, negative={KeyError: 60})
        async def value() -> int:
            await go.wait()
            raise KeyError("nothing")

        callers = [asyncio.create_task(value()) for _ in range(5)]
        await asyncio.sleep(0)
        go.set()
        errors = await asyncio.gather(*callers, return_exceptions=True)
        assert {repr(error) for error in errors} == {"KeyError('nothing')"}
        assert len(set(map(id, errors))) == 5


def test_each_caller_gets_an_exception_of_its_own() -> None:
    asyncio.run(own_exceptions())


def test_a_script_is_asked_by_its_name(private_server: RunningServer, proxy: Proxy) -> None:
    """What the tests above count."""
    load_scripts(private_server)
    with Locks(proxy.url) as locks, locks.lock("a"):
        assert proxy.count(asks(script.ATTEMPT)) == 1
