"""The server loses its memory under holders and waiters: they notice, continue, and fences still rise."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from holdtight import LeaseLost, LossReason, NotOwner
from tests.faults.clients import OpenClient, release_lost, start, tidy, waiting
from tests.support.processes import wait_for
from tests.support.servers import RunningServer


def test_a_holder_hears_of_a_flushed_server_within_a_third_of_its_ttl(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    lease = client.acquire("a", ttl=3)
    lost = threading.Event()
    lease.on_lost(lambda _: lost.set())
    private_server.flushall()
    started = time.monotonic()
    assert lost.wait(5)
    assert time.monotonic() - started < 1 + 1
    assert lease.reason is LossReason.EXPIRED
    with pytest.raises(LeaseLost):
        lease.check()
    release_lost(client, lease)
    after = client.acquire("a")
    assert after.fence > lease.fence
    client.release(after)


def test_a_holder_hears_of_a_server_that_came_back_empty_as_soon_as_it_is_back(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    lease: Any = client.acquire("a", ttl=60)
    client.call(lease.renew)  # the keeper has a connection
    private_server.restart()
    wait_for(lambda: lease.lost, within=10, what="the loss, long before the next renewal is due")
    assert lease.reason is LossReason.EXPIRED
    release_lost(client, lease)


def test_a_holder_hears_of_another_owner_that_took_the_flushed_lock(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client, other = open_client(private_server.url), open_client(private_server.url)
    lease = client.acquire("a", ttl=3)
    private_server.flushall()
    after = other.acquire("a", wait=0)
    assert after.fence > lease.fence
    wait_for(lambda: lease.lost, within=3)
    assert lease.reason in (LossReason.TAKEN, LossReason.EXPIRED)
    release_lost(client, lease)
    assert not after.lost
    other.release(after)


def test_a_release_after_a_flush_says_that_it_was_not_ours(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    lease = client.acquire("a", ttl=30)
    private_server.flushall()
    with pytest.raises(NotOwner):
        client.release(lease)


def test_waiters_of_a_flushed_server_go_on_and_are_served(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client, other = open_client(private_server.url), open_client(private_server.url)
    held = client.acquire("a", ttl=1.5)
    waiters = [start(lambda: other.acquire("a")) for _ in range(3)]
    wait_for(lambda: waiting(private_server, "a") == 3)
    private_server.flushall()
    fences = [held.fence]
    while waiters:
        wait_for(lambda: any(each.done() for each in waiters))
        (done,) = [each for each in waiters if each.done()]
        waiters.remove(done)
        lease = done.result()
        fences.append(lease.fence)
        other.release(lease)
    assert fences == sorted(set(fences))
    release_lost(client, held)
    tidy(private_server)


def test_fences_rise_and_waiters_are_served_after_an_empty_restart(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client, other = open_client(private_server.url), open_client(private_server.url)
    held = client.acquire("a", ttl=2)
    waiter = start(lambda: other.acquire("a", ttl=2))
    wait_for(lambda: waiting(private_server, "a") == 1)
    private_server.restart()
    restarted = time.monotonic()
    lease = waiter.result(10)
    assert time.monotonic() - restarted < 2
    assert lease.fence > held.fence
    wait_for(lambda: held.lost, within=2)
    other.release(lease)
    after = client.acquire("a")
    assert after.fence > lease.fence
    client.release(after)


def test_a_waiter_outlives_a_server_that_is_down_for_a_while(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    held = client.acquire("a", ttl=1.5)
    waiter = start(lambda: client.acquire("a"))
    wait_for(lambda: waiting(private_server, "a") == 1)
    private_server.kill()
    wait_for(lambda: held.lost)
    assert held.reason is LossReason.UNREACHABLE
    assert not waiter.done()
    private_server.restart()
    lease = waiter.result(10)
    assert lease.fence > held.fence
    client.release(lease)
