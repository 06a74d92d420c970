"""A client of a quorum is closed, and its loop with it, while nodes still owe replies: no error or warning appears."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest

from holdtight import AsyncLocks
from holdtight.aio.quorum_driver import QuorumTransport
from holdtight.stores.redis.quorum_store import VOTE
from tests.faults.clients import Colour, OpenClient, asks
from tests.faults.quorum import Nodes, Side, votes_of
from tests.support.processes import wait_for
from tests.support.proxy import Order


@contextmanager
def uncomplaining_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that is closed at the end without another turn; no pending callback may report an error."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    try:
        yield loop
    finally:
        loop.close()
    gc.collect()
    assert complaints == []


def take_one_turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def connecting() -> bool:
    return any(thread.name == "holdtight-connect" for thread in threading.enumerate())


@pytest.mark.parametrize("ends", ["connected", "cut off"])
def test_connects_that_end_in_the_last_turn_of_a_loop_are_nobodys_loss(nodes: Nodes, ends: str) -> None:
    async def give_up_while_connecting(side: Side) -> None:
        async with AsyncLocks(side.urls, connect_timeout=30) as locks:
            acquire = asyncio.create_task(locks.lock("a").acquire(wait=30))
            await asyncio.sleep(0)
            for proxy in side.proxies:
                proxy.wait_for_request(b"HELLO")
        acquire.cancel()
        with suppress(asyncio.CancelledError):
            await acquire

    with Side(nodes) as side, uncomplaining_loop() as loop:
        for proxy in side.proxies[:3]:
            proxy.pause("replies")
        loop.run_until_complete(give_up_while_connecting(side))
        assert connecting()
        if ends == "cut off":
            side.cut_off(range(3), silently=False)
        else:
            side.heal()
        wait_for(lambda: not connecting())
        take_one_turn(loop)


def test_votes_that_nobody_waits_for_end_with_a_loop_that_has_ended(nodes: Nodes) -> None:
    async def take_and_give(side: Side, locks: AsyncLocks) -> Order:
        async with locks.lock("warm"), asyncio.timeout(10):
            while not cast(QuorumTransport, locks.transport()).all_ready():
                await asyncio.sleep(0.001)  # otherwise the last node may not have been asked yet when the loop ends
        held = side.proxies[4].hold_reply(asks(VOTE))
        async with locks.lock("a"):
            pass
        return held

    with Side(nodes) as side, uncomplaining_loop() as loop:
        locks = AsyncLocks(side.urls)
        held = loop.run_until_complete(take_and_give(side, locks))
        held.wait()
        locks.discard()


def test_leases_that_are_held_at_close_are_renewed_and_released_one_after_another(
    nodes: Nodes, open_client: OpenClient, colour: Colour
) -> None:
    client = open_client(nodes.urls)
    leases: list[Any] = [client.acquire(name) for name in ("a", "b")]
    client.call(client.locks.close if colour == "sync" else client.locks.aclose)
    for lease in leases:
        client.call(lease.renew)
        client.release(lease)
    wait_for(lambda: not any(votes_of(nodes, "a") + votes_of(nodes, "b")))


@pytest.mark.parametrize("then", ["is refused", "is cancelled"])
def test_a_caller_that_asks_when_the_client_is_closed_leaves_no_vote_behind(nodes: Nodes, then: str) -> None:
    async def main(side: Side) -> None:
        locks = AsyncLocks(side.urls)
        async with locks.lock("warm"):
            pass
        held = [proxy.hold_reply(asks(VOTE)) for proxy in side.proxies]
        acquire = asyncio.create_task(locks.lock("a").acquire())
        for each in held:
            await asyncio.to_thread(each.wait)
        await locks.aclose()
        for each in held:
            each.release()
        if then == "is refused":
            with pytest.raises(RuntimeError, match="is closed"):
                await acquire
        else:
            acquire.cancel()
            with pytest.raises(asyncio.CancelledError):
                await acquire

    with Side(nodes) as side:
        asyncio.run(main(side))
        wait_for(lambda: votes_of(nodes, "a") == [b""] * 5)
