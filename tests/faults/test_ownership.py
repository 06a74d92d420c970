"""Faults 3 to 5 of the peers: the owner of a grant, also with a shared lock object, and a release that failed."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from holdtight import AsyncLocks, Locks, Unavailable
from holdtight.aio.lease import AsyncLease
from holdtight.stores.redis import script
from tests.faults.clients import OpenClient, asks, load_scripts, start, tidy
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


def test_two_tasks_that_share_one_lock_object_exclude_each_other(server: RunningServer) -> None:
    inside, most, fences = 0, 0, []

    async def main() -> None:
        async with AsyncLocks(server.url) as locks:
            lock = locks.lock("shared")

            async def work() -> None:
                nonlocal inside, most
                for _ in range(20):
                    async with lock as lease:
                        inside += 1
                        most = max(most, inside)
                        await asyncio.sleep(0)
                        lease.check()
                        fences.append(lease.fence)
                        inside -= 1

            await asyncio.gather(work(), work())

    asyncio.run(main())
    assert most == 1
    assert len(set(fences)) == 40
    assert fences == sorted(fences)


def test_a_thread_that_shares_a_lock_object_cannot_release_the_others_grant(
    server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(server.url)
    first = client.acquire("shared")
    assert client.try_acquire("shared") is None
    client.release(first)
    second = client.acquire("shared")
    client.release(first)
    assert not second.lost
    assert client.try_acquire("shared") is None, "a lease that is over releases nothing"
    client.release(second)


def test_two_threads_that_share_one_lock_object_exclude_each_other(server: RunningServer) -> None:
    inside: list[int] = []
    with Locks(server.url) as locks:
        lock = locks.lock("shared")

        def work() -> None:
            for _ in range(20):
                with lock:
                    inside.append(1)
                    assert len(inside) == 1
                    inside.pop()

        for each in [start(work) for _ in range(4)]:
            each.result(10)


def test_a_release_from_another_thread_works(server: RunningServer, open_client: OpenClient) -> None:
    client = open_client(server.url)
    lease = client.acquire("a")
    start(lambda: client.release(lease)).result(10)
    again = client.try_acquire("a")
    assert again is not None
    client.release(again)


def test_a_hold_is_left_in_another_thread_than_it_was_entered_in(server: RunningServer) -> None:
    with Locks(server.url) as locks:
        hold = locks.lock("a").hold()
        lease = hold.__enter__()
        start(lambda: hold.__exit__(None, None, None)).result(10)
        assert lease.remaining() == 0
        assert not locks.lock("a").locked()


def test_a_release_from_another_loop_works(server: RunningServer) -> None:
    async def take() -> None:
        leases.append(await locks.lock("a").acquire())

    async def give() -> None:
        await leases[0].release()
        again = await locks.lock("a").try_acquire()
        assert again is not None
        await again.release()
        await locks.aclose()

    leases: list[AsyncLease] = []
    locks = AsyncLocks(server.url)
    asyncio.run(take())
    asyncio.run(give())


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_a_release_that_failed_is_brought_to_the_server_when_it_is_back(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, how: str
) -> None:
    load_scripts(private_server)
    client, other = open_client(proxy.url), open_client(private_server.url)
    lease = client.acquire("a", ttl=60)
    if how == "refused":
        proxy.refuse()
        proxy.cut()
    else:
        proxy.black_hole()
    with pytest.raises(Unavailable):
        client.release(lease)
    client.release(lease)  # a second release is no error, and sends nothing
    assert other.try_acquire("a") is None
    proxy.heal()
    started = time.monotonic()
    other.release(other.acquire("a", wait=10))
    assert time.monotonic() - started < 3, "long before the ttl of a minute"
    tidy(private_server)


def test_a_release_that_failed_for_good_ends_with_the_ttl(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    client, other = open_client(proxy.url), open_client(private_server.url)
    lease = client.acquire("a", ttl=1)
    proxy.refuse()
    proxy.cut()
    started = time.monotonic()
    with pytest.raises(Unavailable):
        client.release(lease)
    again = other.acquire("a", wait=5)
    assert time.monotonic() - started < 1 + 2
    assert again.fence > lease.fence
    other.release(again)


def test_a_block_that_ends_while_the_server_is_away_is_no_error(private_server: RunningServer, proxy: Proxy) -> None:
    failed = threading.Event()
    with Locks(proxy.url) as locks:
        locks.events.subscribe(lambda event: failed.set() if type(event).__name__ == "ReleaseFailed" else None)
        with locks.lock("a", ttl=2):
            proxy.refuse()
            proxy.cut()
        assert failed.is_set()
        proxy.heal()
        locks.lock("a", wait=5).acquire().release()


def test_a_renewal_never_revives_what_was_released_meanwhile(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    """The renewal is under way when the release goes out; arriving late it must not touch the next holder."""
    load_scripts(private_server)
    client, other = open_client(proxy.url), open_client(private_server.url)
    lease = client.acquire("a", ttl=3)
    held = proxy.hold_reply(asks(script.RENEW))
    held.wait()
    client.release(lease)
    after = other.acquire("a", ttl=30, wait=1)
    held.release()
    wait_for(lambda: not held.done or private_server.command("PTTL", "ht:{a}") > 20_000)
    assert not lease.lost
    assert not after.lost
    other.release(after)
