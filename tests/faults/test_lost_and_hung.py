"""The server hangs and the lease is lost: its end does not wait, and the keeper gives the lock back later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdtight import LeaseLost
from tests.faults.clients import Client, Colour, OpenClient
from tests.faults.quorum import Nodes
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

TTL = 0.6
AT_ONCE = 1.5
"""Measured: some milliseconds. Without the rule, four seconds for each name."""

WHAT: dict[str, Callable[[Any], Any]] = {
    "exclusive": lambda locks: locks.lock("a", ttl=TTL),
    "reader": lambda locks: locks.rwlock("a", ttl=TTL).read(),
    "permit": lambda locks: locks.semaphore("a", permits=2, ttl=TTL),
    "entered again": lambda locks: locks.lock("a", ttl=TTL, reentrant=True),
    "several": lambda locks: locks.multi("a", "b", "c", "d", "e", "f", ttl=TTL),
}
ENDS = ["release", "block", "hold"]


@pytest.fixture(params=["stopped", "black hole"])
def silence(
    request: pytest.FixtureRequest, private_server: RunningServer, proxy: Proxy
) -> Iterator[Callable[[], None]]:
    """Makes the server behind proxy.url silent."""
    yield private_server.pause if request.param == "stopped" else proxy.black_hole
    private_server.resume()


def seconds_to_leave(client: Client, colour: Colour, lock: Any, end: str, silence: Callable[[], None]) -> float:
    """How long the end of a lease takes that was lost because the server is silent."""
    work = leave if colour == "sync" else aleave
    seconds: float = client.call(work, lock, end, silence)
    return seconds


def leave(lock: Any, end: str, silence: Callable[[], None]) -> float:
    lost_at = 0.0
    try:
        if end == "release":
            lease = lock.acquire()
            silence()
            assert lease.wait_lost(10)
            lost_at = time.monotonic()
            lease.release()
        else:
            with lock if end == "block" else lock.hold() as lease:
                silence()
                assert lease.wait_lost(10)
                lost_at = time.monotonic()
    except LeaseLost:
        return time.monotonic() - lost_at
    pytest.fail("nothing was said of the loss")


async def aleave(lock: Any, end: str, silence: Callable[[], None]) -> float:
    lost_at = 0.0
    try:
        if end == "release":
            lease = await lock.acquire()
            silence()
            assert await lease.wait_lost(10)
            lost_at = time.monotonic()
            await lease.release()
        else:
            async with lock if end == "block" else lock.hold() as lease:
                silence()
                try:
                    assert await lease.wait_lost(10)
                    if end == "block":
                        await asyncio.sleep(10)  # which the loss cancels
                finally:
                    lost_at = time.monotonic()
    except LeaseLost:
        return time.monotonic() - lost_at
    pytest.fail("nothing was said of the loss")


@pytest.mark.parametrize(
    "end", [pytest.param(end, marks=pytest.mark.long if end == "hold" else ()) for end in ENDS], ids=str
)
@pytest.mark.parametrize("what", WHAT)
def test_a_lost_lease_is_left_at_once(
    proxy: Proxy, open_client: OpenClient, colour: Colour, silence: Callable[[], None], what: str, end: str
) -> None:
    client = open_client(proxy.url)
    client.release(client.acquire("warm"))
    assert seconds_to_leave(client, colour, WHAT[what](client.locks), end, silence) < AT_ONCE


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("what", ["exclusive", "several"])
def test_a_lease_that_a_quorum_lost_is_left_at_once(
    nodes: Nodes, open_client: OpenClient, colour: Colour, what: str, end: str
) -> None:
    def silence() -> None:
        for server in nodes.servers[:3]:
            server.pause()

    client = open_client(nodes.urls)
    client.release(client.acquire("warm"))
    try:
        assert seconds_to_leave(client, colour, WHAT[what](client.locks), end, silence) < AT_ONCE
    finally:
        for server in nodes.servers[:3]:
            server.resume()


def test_what_was_lost_is_given_back_in_the_background(
    private_server: RunningServer, open_client: OpenClient, colour: Colour
) -> None:
    """Also by a client that is closed right after: here the server keeps the grant for much longer than its holder."""
    client, other = open_client(private_server.url), open_client(private_server.url)
    lease: Any = client.acquire("a", ttl=60, max_hold=0.2)
    client.call(lease.wait_lost, 10)
    with pytest.raises(LeaseLost):
        client.release(lease)
    client.call(client.locks.close if colour == "sync" else client.locks.aclose)
    wait_for(lambda: not other.call(other.locks.inspect, "a").locked)
