"""A client that is closed while others wait: they get the error of new calls at once, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.keeper.charges import StandingInLine
from holdtight.keeper.keeper import keeper
from tests.faults.clients import Client, Colour, OpenClient, start
from tests.faults.quorum import Nodes
from tests.support.processes import StartChild, wait_for
from tests.support.servers import RunningServer

SOON = 10.0
"""Measured: some milliseconds."""

Way = Callable[[Any], Any]

WAYS: dict[str, Way] = {
    "exclusive": lambda locks: locks.lock("b").acquire,
    "with a limit": lambda locks: locks.lock("b", wait=600).acquire,
    "reader": lambda locks: locks.rwlock("b").read().acquire,
    "permit": lambda locks: locks.semaphore("b", permits=1).acquire,
    "several": lambda locks: locks.multi("a", "b", "c").acquire,
    "hold": lambda locks: locks.lock("b").hold().__enter__,
}
HOLDERS: dict[str, Way] = {
    "reader": lambda locks: locks.rwlock("b").write().acquire,
    "permit": WAYS["permit"],
}


def close(client: Client, colour: Colour) -> None:
    client.call(client.locks.close if colour == "sync" else client.locks.aclose)


def waiting(client: Client, name: str = "b") -> int:
    found: int = client.call(client.locks.inspect, name).waiting
    return found


def begin(client: Client, colour: Colour, way: str) -> Future[Any]:
    if way == "hold" and colour == "asyncio":
        take = client.locks.lock("b").hold().__aenter__
    else:
        take = WAYS[way](client.locks)
    return start(lambda: client.call(take))


def all_are_refused(waiters: list[Future[Any]]) -> None:
    for waiter in waiters:
        with pytest.raises(RuntimeError, match="is closed"):
            waiter.result(SOON)


def nothing_stays(holder: Client, lease: Any) -> None:
    wait_for(lambda: waiting(holder) == 0, within=4)  # a place in line is forgotten after five seconds
    for name in ("a", "c"):
        wait_for(lambda name=name: not holder.call(holder.locks.inspect, name).locked)  # type: ignore[misc]
    lease.check()
    holder.release(lease)
    holder.release(holder.acquire("b", wait=5))


@pytest.fixture(params=["server", "memory"])
def url(request: pytest.FixtureRequest, private_server: RunningServer) -> str:
    return private_server.url if request.param == "server" else "memory://closing"


@pytest.mark.parametrize("way", WAYS)
def test_a_waiter_at_close_is_refused_at_once(url: str, open_client: OpenClient, colour: Colour, way: str) -> None:
    holder, client = open_client(url, ttl=60), open_client(url, ttl=60)
    lease = holder.call(HOLDERS.get(way, WAYS["exclusive"])(holder.locks))
    waiters = [begin(client, colour, way) for _ in range(2)]
    # Of several locks the first has "a", and the second waits for that.
    wait_for(lambda: waiting(holder) + waiting(holder, "a") == 2)
    close(client, colour)
    all_are_refused(waiters)
    nothing_stays(holder, lease)


@pytest.fixture
def long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for so long that the keeper sends the heartbeats."""
    for where in ("sync.lock", "sync.driver"):
        monkeypatch.setattr(f"holdtight.{where}.TOUCH_SECONDS", 0.02)


@pytest.mark.usefixtures("long_waits")
def test_a_waiter_that_has_waited_for_long_is_refused_too(url: str, open_client: OpenClient, colour: Colour) -> None:
    holder, client = open_client(url, ttl=60), open_client(url, ttl=60)
    lease = holder.acquire("b")
    waiter = begin(client, colour, "exclusive")
    place = client.locks.place
    wait_for(lambda: any(isinstance(charge, StandingInLine) for charge in keeper().charges(place)))
    close(client, colour)
    all_are_refused([waiter])
    nothing_stays(holder, lease)


def test_a_waiter_with_a_lock_in_hand_is_refused_and_gives_it_back(private_server: RunningServer) -> None:
    """Such a waiter also looks for deadlocks."""
    with Locks(private_server.url) as holder, Locks(private_server.url, deadlock_after=0.02) as locks:
        lease = holder.lock("b").acquire()

        def work() -> None:
            with locks.lock("a"):
                locks.lock("b").acquire()

        waiter = start(work)
        wait_for(lambda: locks.deadlocks.runs > 1)
        locks.close()
        all_are_refused([waiter])
        wait_for(lambda: not holder.inspect("a").locked)
        wait_for(lambda: holder.inspect("b").waiting == 0, within=4)
        lease.release()


def test_a_caller_that_waits_for_the_server_to_come_back_is_refused(
    private_server: RunningServer, open_client: OpenClient, colour: Colour
) -> None:
    holder, client = open_client(private_server.url), open_client(private_server.url)
    lease = holder.acquire("b", renew=False, ttl=5)
    waiter = begin(client, colour, "exclusive")
    wait_for(lambda: waiting(holder) == 1)
    private_server.kill()
    wait_for(lambda: lease.lost)  # by now it sleeps between attempts, not on its connection
    assert not waiter.done()
    close(client, colour)
    all_are_refused([waiter])


def test_a_caller_that_waits_for_a_connection_is_refused(private_server: RunningServer) -> None:
    with Locks(private_server.url) as holder:
        lease = holder.lock("b").acquire()
        locks = Locks(private_server.url, max_connections=1)
        waiters = [start(locks.lock("b").acquire) for _ in range(3)]
        wait_for(lambda: holder.inspect("b").waiting == 1)
        locks.close()
        all_are_refused(waiters)
        wait_for(lambda: holder.inspect("b").waiting == 0, within=4)
        lease.release()


ENDING = """
import os, threading
import holdtight.sync.driver, holdtight.sync.lock
from holdtight import Locks
from holdtight.keeper.charges import StandingInLine
from holdtight.keeper.keeper import keeper
from tests.support.processes import StartChild, wait_for

url, touched_after = args
for module in holdtight.sync.driver, holdtight.sync.lock:
    module.TOUCH_SECONDS = float(touched_after)
locks = Locks(url)

def wait():
    try:
        locks.lock("b").acquire()
    except RuntimeError:
        os._exit(0)
    os._exit(1)

threading.Thread(target=wait).start()
if hear() == "the keeper sends heartbeats":
    wait_for(lambda: any(isinstance(charge, StandingInLine) for charge in keeper().charges(locks.place)))
keeper().run_soon(threading.Event().wait)  # the process ends before the keeper gets to do anything more
locks.close()
"""


@pytest.mark.parametrize(
    ("touched_after", "told"), [("600", "it waits briefly"), ("0.02", "the keeper sends heartbeats")]
)
def test_a_refused_waiter_has_left_the_line_when_its_process_ends_at_once(
    private_server: RunningServer, start_child: StartChild, touched_after: str, told: str
) -> None:
    with Locks(private_server.url, ttl=60) as holder, holder.lock("b"):
        child = start_child(ENDING, private_server.url, touched_after)
        wait_for(lambda: holder.inspect("b").waiting == 1)
        child.send(told)
        assert child.wait() == 0
        assert not holder.inspect("b").waiting


@pytest.mark.parametrize("way", ["exclusive", "reader", "several"])
def test_a_waiter_on_a_quorum_is_refused_at_once(
    nodes: Nodes, open_client: OpenClient, colour: Colour, way: str
) -> None:
    holder, client = open_client(nodes.urls, ttl=60), open_client(nodes.urls, ttl=60)
    lease = holder.call(HOLDERS.get(way, WAYS["exclusive"])(holder.locks))
    waiter = begin(client, colour, way)
    wait_for(lambda: any(server.command("ZCARD", "ht:{b}:b") for server in nodes.servers), what="it to wait")
    close(client, colour)
    all_are_refused([waiter])
    wait_for(lambda: not holder.call(holder.locks.inspect, "a").locked)
    lease.check()
    holder.release(lease)
    holder.release(holder.acquire("b", wait=10))


@pytest.mark.parametrize("rounds", [20])
def test_a_caller_that_begins_to_wait_while_it_is_closed_does_not_miss_it(
    url: str, open_client: OpenClient, colour: Colour, rounds: int
) -> None:
    holder = open_client(url, ttl=60)
    lease = holder.acquire("b")
    for _ in range(rounds):
        client = open_client(url, ttl=60)
        client.release(client.acquire("warm"))
        together = threading.Barrier(5)

        def wait(client: Client = client, together: threading.Barrier = together) -> None:
            together.wait()
            client.acquire("b")

        waiters = [start(wait) for _ in range(4)]
        together.wait()
        close(client, colour)
        all_are_refused(waiters)
    nothing_stays(holder, lease)


def test_a_grant_that_comes_while_it_is_closed_is_given_back(
    private_server: RunningServer, open_client: OpenClient, colour: Colour
) -> None:
    """Either the waiter has the lock, and may give it back, or it is refused and the lock is free."""
    holder = open_client(private_server.url, ttl=60)
    for _ in range(20):
        client = open_client(private_server.url, ttl=60)
        lease = holder.acquire("b", wait=10)
        waiter = begin(client, colour, "exclusive")
        wait_for(lambda: waiting(holder) == 1)
        released = start(lambda lease=lease: holder.release(lease))  # type: ignore[misc]
        close(client, colour)
        released.result(SOON)
        try:
            got = waiter.result(SOON)
        except RuntimeError:
            pass
        else:
            client.release(got)
        wait_for(lambda: not holder.call(holder.locks.inspect, "b").locked)


def test_on_another_loop_than_the_one_that_closes_it_is_refused_too(private_server: RunningServer) -> None:
    import asyncio

    from holdtight import AsyncLocks

    with Locks(private_server.url) as holder:
        lease = holder.lock("b").acquire()
        locks = AsyncLocks(private_server.url)
        waiter = start(lambda: asyncio.run(locks.lock("b").acquire()))
        wait_for(lambda: holder.inspect("b").waiting == 1)
        asyncio.run(locks.aclose())
        all_are_refused([waiter])
        wait_for(lambda: holder.inspect("b").waiting == 0, within=4)
        lease.release()


def test_a_connection_that_comes_when_its_loop_has_ended_is_closed(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks, loop = AsyncLocks(private_server.url), asyncio.new_event_loop()
    may_open, opened, threads = threading.Event(), list[Any](), list[threading.Thread]()
    open_link = locks.place.open

    def slowly(timeout: float) -> Any:
        threads.append(threading.current_thread())
        assert may_open.wait(30)
        opened.append(open_link(timeout))
        return opened[-1]

    async def begin() -> None:
        asking = asyncio.create_task(locks.lock("a").locked())
        while not threads:
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])

    monkeypatch.setattr(locks.place, "open", slowly)
    loop.run_until_complete(begin())
    may_open.set()
    threads[0].join(30)
    assert not threads[0].is_alive()
    loop.close()  # before it has taken the link that the thread has opened
    gc.collect()
    assert [link.fd for link in opened] == [-1]
    monkeypatch.undo()
    asyncio.run(locks.aclose())
