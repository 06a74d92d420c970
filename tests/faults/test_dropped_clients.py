"""Clients that are dropped without close(): their connections end, a warning says what to do, and grants stay."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import warnings
from collections.abc import Callable, Iterator

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.grants.leak_warning import MOST_OPEN
from holdtight.keeper.keeper import keeper
from tests.faults.clients import COLOURS
from tests.faults.quorum import Nodes, StartNodes
from tests.support.processes import StartChild, wait_for
from tests.support.servers import RunningServer

CLIENTS = 20
RECORD_IS_LOOKED_AT = 7.5
"""Seconds in which the keeper checks three times whether a client is still used."""


@pytest.fixture(autouse=True)
def nothing_to_collect() -> Iterator[None]:
    gc.collect()
    yield
    gc.collect()


def use_and_drop(url: str | list[str]) -> None:
    for _ in range(CLIENTS):
        with Locks(url).lock("a"):
            pass


async def use_and_drop_on_a_loop(url: str | list[str]) -> None:
    for _ in range(CLIENTS):
        async with AsyncLocks(url).lock("a"):
            pass


def connections(nodes: Nodes) -> list[int]:
    """How many connections each server has ever had, besides the one that asks."""
    return [int(server.info("stats")["total_connections_received"]) for server in nodes.servers]


def nobody_is_connected(nodes: Nodes) -> bool:
    gc.collect()  # does nothing while another thread collects, which may have begun too early
    return not any(server.clients() for server in nodes.servers)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("colour", COLOURS)
def test_dropped_clients_leave_the_server_at_once_and_do_not_come_back(
    start_nodes: StartNodes, colour: str, count: int
) -> None:
    nodes = start_nodes(count)
    target: str | list[str] = nodes.urls if count > 1 else nodes.urls[0]
    wait_for(lambda: nobody_is_connected(nodes))

    async def main() -> None:
        await use_and_drop_on_a_loop(target)
        end = time.monotonic() + 2.5
        while not await asyncio.to_thread(nobody_is_connected, nodes):
            assert time.monotonic() < end, "the keeper has not looked at them before, nor has the loop ended"

    with pytest.warns(ResourceWarning, match="was dropped without being closed") as told:  # noqa: PT031
        if colour == "sync":
            use_and_drop(target)
            wait_for(lambda: nobody_is_connected(nodes), within=2.5)
        else:
            asyncio.run(main())
        wait_for(lambda: len(told) == CLIENTS, what="a warning for each, some by way of the callback thread")
    advice = "use a with block, call close()" if colour == "sync" else "use an async with block, call aclose()"
    assert f"{advice}, or share one client" in str(told[0].message)
    before = connections(nodes)
    time.sleep(RECORD_IS_LOOKED_AT)  # a connection that is made to remove a record is made then
    after = connections(nodes)
    assert [now - then for then, now in zip(before, after, strict=True)] == [1] * count, "and that is ours"
    assert nobody_is_connected(nodes)


A_CLIENT_PER_REQUEST = """
import asyncio, gc, json, warnings
from holdtight import AsyncLocks, Locks
from tests.support.starving import limit_descriptors

target = json.loads(args[0])
nodes = len(target) if isinstance(target, list) else 1
gc.disable()  # as if each client had grown so old that only the rare full collection finds it
warnings.simplefilter("ignore")
limit_descriptors(MOST_ALIVE * nodes + 60)

async def on_a_loop():
    for _ in range(REQUESTS):
        async with AsyncLocks(target).lock("a"):
            pass

if args[1] == "sync":
    for _ in range(REQUESTS):
        with Locks(target).lock("a"):
            pass
else:
    asyncio.run(on_a_loop())
say("done")
"""


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_client_per_request_does_not_use_up_the_descriptors(
    start_nodes: StartNodes, start_child: StartChild, colour: str, count: int
) -> None:
    """A client that has been used is in a cycle, so only the garbage collector frees it."""
    nodes = start_nodes(count)
    target = nodes.urls if count > 1 else nodes.urls[0]
    code = A_CLIENT_PER_REQUEST.replace("MOST_ALIVE", str(MOST_OPEN)).replace("REQUESTS", str(3 * MOST_OPEN))
    child = start_child(code, json.dumps(target), colour)
    child.expect("done", within=120)  # measured: 6 s


COUNT_LOOKS = """
import gc
from holdtight import Locks

def looks(use):
    seen = []
    gc.callbacks.append(lambda phase, about: seen.append(about["generation"]) if phase == "start" else None)
    used = [use(Locks("redis://h")) for _ in range(8 * MOST_OPEN)]
    gc.callbacks.pop()
    return len(seen)

gc.disable()
say(looks(lambda locks: locks.close()))
say(looks(lambda locks: locks))
"""


def test_a_program_with_many_clients_seldom_looks_for_dropped_ones(start_child: StartChild) -> None:
    child = start_child(COUNT_LOOKS.replace("MOST_OPEN", str(MOST_OPEN)))
    child.expect("0")  # all were closed
    child.expect("4")  # with 50, 100, 200 and 400 of them


@pytest.mark.parametrize("renewed", [False, True])
def test_the_keepers_connection_ends_with_the_client_too(private_server: RunningServer, renewed: bool) -> None:
    def use() -> None:
        with Locks(private_server.url).lock("a", ttl=6):
            if renewed:
                wait_for(lambda: len(private_server.clients()) == 2)

    with pytest.warns(ResourceWarning, match="dropped"):  # noqa: PT031
        use()
        wait_for(lambda: nobody_is_connected(Nodes([private_server])), within=2.5)
    if renewed:
        assert not private_server.keys("*:client:*"), "it was removed on the connection that was there"


def hold(url: str) -> Callable[[], None]:
    lease = Locks(url).lock("a", ttl=1.5).acquire()

    def finish() -> None:
        lease.check()
        lease.release()
        lease.lock.client.close()

    return finish


def test_a_lease_that_is_referenced_keeps_its_client(private_server: RunningServer) -> None:
    with warnings.catch_warnings(), Locks(private_server.url) as others:
        warnings.simplefilter("error")
        finish = hold(private_server.url)
        gc.collect()
        time.sleep(3)  # twice the ttl
        assert others.lock("a").try_acquire() is None
        finish()


def test_a_block_keeps_its_client(private_server: RunningServer) -> None:
    with pytest.warns(ResourceWarning, match="dropped") as told, Locks(private_server.url) as others:  # noqa: PT031
        with Locks(private_server.url).lock("a", ttl=1.5) as lease:
            gc.collect()
            time.sleep(3)  # twice the ttl
            lease.check()
            assert others.lock("a").try_acquire() is None
        del lease
        wait_for(lambda: gc.collect() < 0 or len(told) > 0)


def test_a_client_that_was_closed_or_never_connected_says_nothing(private_server: RunningServer) -> None:
    async def on_a_loop() -> None:
        async with AsyncLocks(private_server.url) as locks, locks.lock("a"):
            pass
        AsyncLocks(private_server.url).lock("a")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Locks(private_server.url) as locks, locks.lock("a"):
            pass
        Locks(private_server.url).lock("a")
        with Locks("memory://").lock("a"):
            pass
        asyncio.run(on_a_loop())
        del locks
        gc.collect()


def test_a_client_of_a_loop_that_is_closed_is_dropped_as_well(private_server: RunningServer) -> None:
    with pytest.warns(ResourceWarning, match="dropped"):  # noqa: PT031
        asyncio.run(use_and_drop_on_a_loop(private_server.url))
        wait_for(lambda: nobody_is_connected(Nodes([private_server])), within=2.5)


def leave_clients_open(url: str) -> None:
    """In a child that ends without closing anything, one client in a module and one in a cycle."""
    global left
    left = Locks(url)
    with left.lock("a"):
        pass
    left.lock("b").acquire()

    async def on_a_loop() -> None:
        global left_on_a_loop
        left_on_a_loop = AsyncLocks(url)
        async with left_on_a_loop.lock("a"):
            pass

    asyncio.run(on_a_loop())


left: Locks
left_on_a_loop: AsyncLocks


def test_the_end_of_the_process_is_silent(private_server: RunningServer, start_child: StartChild) -> None:
    code = "import tests.faults.test_dropped_clients as module; module.leave_clients_open(*args)"
    child = start_child(code, private_server.url, env={"PYTHONWARNINGS": "always"})
    assert child.wait() == 0
    assert "closed" not in child.errors
    assert "ignored" not in child.errors


def test_nothing_is_left_with_the_keeper(private_server: RunningServer) -> None:
    def known() -> bool:
        """Clients of a memory store, which other tests have dropped, hold no connection and stay a little longer."""
        gc.collect()
        return any(place.display in private_server.url for place in list(keeper()._connections))

    with pytest.warns(ResourceWarning, match="dropped"):  # noqa: PT031
        use_and_drop(private_server.url)
        wait_for(lambda: not known(), within=2.5)
