"""A subscriber raises a BaseException, as `sys.exit()` does: it ends the call, and no lock stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdtight import Locks
from holdtight.base.identity import identity
from holdtight.events import Acquired, Degraded, Detached, Downgraded, Event, Released
from tests.faults.clients import Client, Colour, OpenClient, start
from tests.faults.quorum import Nodes
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

TTL = 60.0


class Halt(BaseException):
    """Like SystemExit, which would end an event loop."""


def halting(client: Client, *kinds: type[Event]) -> list[Event]:
    """From now on the client's subscriber raises on these events. Returns what another subscriber has got since."""
    heard: list[Event] = []

    def halt(event: Event) -> None:
        if isinstance(event, kinds):
            raise Halt

    client.locks.events.subscribe(halt)
    client.locks.events.subscribe(heard.append)
    return heard


WHAT: dict[str, Callable[[Any], Any]] = {
    "exclusive": lambda locks: locks.lock("a", ttl=TTL),
    "reader": lambda locks: locks.rwlock("a", ttl=TTL).read(),
    "permit": lambda locks: locks.semaphore("a", permits=2, ttl=TTL),
    "entered again": lambda locks: locks.lock("a", ttl=TTL, reentrant=True),
    "several": lambda locks: locks.multi("a", "b", "c", ttl=TTL),
}


def all_free(other: Client) -> None:
    for name in ("a", "b", "c"):
        wait_for(lambda name=name: not other.call(other.locks.inspect, name).locked, what=name)  # type: ignore[misc]


@pytest.fixture(params=["server", "memory"])
def url(request: pytest.FixtureRequest, private_server: RunningServer) -> str:
    return private_server.url if request.param == "server" else "memory://subscribers"


def takes(client: Client, colour: Colour, what: str) -> list[Callable[[], Any]]:
    """All ways to take a lock."""
    lock = WHAT[what](client.locks)
    enter = "__enter__" if colour == "sync" else "__aenter__"
    return [lock.acquire, lock.try_acquire, getattr(lock, enter), getattr(lock.hold(), enter)]


@pytest.mark.parametrize("what", WHAT)
def test_the_lock_goes_back_before_the_call_ends(url: str, open_client: OpenClient, colour: Colour, what: str) -> None:
    client, other = open_client(url), open_client(url)
    heard = halting(client, Acquired)
    for take in takes(client, colour, what):  # the first has to connect
        with pytest.raises(Halt):
            client.call(take)
        assert not identity().stack
        all_free(other)
    assert [type(event) for event in heard[:2]] == [Acquired, Released] or what == "several"


@pytest.mark.parametrize("what", ["exclusive", "several"])
def test_on_a_quorum_too(nodes: Nodes, open_client: OpenClient, colour: Colour, what: str) -> None:
    client, other = open_client(nodes.urls), open_client(nodes.urls)
    halting(client, Acquired)
    for take in takes(client, colour, what):
        with pytest.raises(Halt):
            client.call(take)
        all_free(other)


def test_what_was_waited_for_goes_back(url: str, open_client: OpenClient, colour: Colour) -> None:
    client, other = open_client(url), open_client(url)
    halting(client, Acquired)
    lease = other.acquire("a")
    waiter = start(lambda: client.acquire("a", ttl=TTL))
    wait_for(lambda: other.call(other.locks.inspect, "a").waiting == 1)
    other.release(lease)
    with pytest.raises(Halt):
        waiter.result(10)
    all_free(other)


@pytest.mark.parametrize("what", WHAT)
def test_a_release_gives_back_all_that_there_is(url: str, open_client: OpenClient, colour: Colour, what: str) -> None:
    client, other = open_client(url), open_client(url)
    halting(client, Released)
    lease = client.call(WHAT[what](client.locks).acquire)
    with pytest.raises(Halt):
        client.release(lease)
    all_free(other)
    client.release(lease)


def test_what_is_downgraded_detached_or_adopted_goes_back(url: str, open_client: OpenClient, colour: Colour) -> None:
    client, other, calm = open_client(url), open_client(url), open_client(url)
    halting(client, Downgraded, Detached)
    writer = client.call(client.locks.rwlock("a", ttl=TTL).write().acquire)
    with pytest.raises(Halt):
        client.call(writer.downgrade)
    all_free(other)
    assert writer.remaining() == 0
    lease: Any = client.acquire("a", ttl=TTL)
    with pytest.raises(Halt):
        client.call(lease.detach)
    all_free(other)
    assert lease.remaining() == 0
    text = calm.call(calm.acquire("a", ttl=TTL).detach)  # type: ignore[attr-defined]
    halting(client, Acquired)
    with pytest.raises(Halt):
        client.call(client.locks.adopt, text)
    all_free(other)


def test_what_stands_in_for_the_server_goes_back(open_client: OpenClient) -> None:
    client = open_client("redis://127.0.0.1:1", on_unavailable="local", connect_timeout=0.2)
    halting(client, Degraded)
    with pytest.raises(Halt):
        client.acquire("a", ttl=TTL)
    client.locks.events.subscribers = ()
    client.release(client.acquire("a", ttl=TTL, wait=5))


def test_a_program_that_a_subscriber_ends_leaves_no_lock(private_server: RunningServer) -> None:
    def leave(event: Event) -> None:
        raise SystemExit(3)

    with Locks(private_server.url) as locks, Locks(private_server.url) as other:
        locks.events.subscribe(leave)
        for _ in range(2):
            with pytest.raises(SystemExit), locks.lock("a", ttl=TTL):
                pytest.fail("the block began")
            assert not other.lock("a").locked()
