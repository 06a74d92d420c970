"""After thousands of acquisitions threads, descriptors, tasks and server clients are back to the start."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.base.callbacks import tell
from holdtight.keeper.keeper import keeper
from holdtight.sync.lock import Lock
from tests.faults.clients import start, tidy, waiting
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

ROUNDS = 2000


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def warm_up(server: RunningServer) -> None:
    """What a process starts once and keeps: the keeper and its pipe, the callback thread."""
    with Locks(server.url) as locks:
        locks.lock("warm", ttl=0.2).acquire().release()
    tell(lambda: None)
    wait_for(lambda: not server.clients())


def all_back(server: RunningServer, threads: set[threading.Thread], fds: int) -> None:
    wait_for(lambda: not server.clients(), what="the clients to leave the server")
    wait_for(lambda: not (set(threading.enumerate()) - threads), what="threads to end")
    wait_for(lambda: descriptors() <= fds, what="descriptors to be closed")
    assert keeper().statistics()["charges"] == 0
    tidy(server)


def test_two_thousand_contended_acquisitions_by_threads_leave_nothing(private_server: RunningServer) -> None:
    warm_up(private_server)
    threads, fds = set(threading.enumerate()), descriptors()
    with Locks(private_server.url) as locks, ThreadPoolExecutor(8) as pool:

        def work(_: int) -> int:
            with locks.lock("a", ttl=5) as lease:
                return lease.fence

        fences = list(pool.map(work, range(ROUNDS)))
    assert len(set(fences)) == ROUNDS
    all_back(private_server, threads, fds)


def test_two_thousand_contended_acquisitions_by_tasks_leave_nothing(private_server: RunningServer) -> None:
    warm_up(private_server)
    threads, fds = set(threading.enumerate()), descriptors()

    async def main() -> None:
        tasks = asyncio.all_tasks()
        async with AsyncLocks(private_server.url) as locks:

            async def work() -> None:
                for _ in range(ROUNDS // 20):
                    async with locks.lock("a", ttl=5):
                        pass

            await asyncio.gather(*(work() for _ in range(20)))
        assert asyncio.all_tasks() == tasks

    asyncio.run(main())
    all_back(private_server, threads, fds)


@pytest.mark.parametrize("way", ["block", "release", "contended"])
def test_a_lock_that_lay_idle_takes_its_leases_off_the_keepers_hands(private_server: RunningServer, way: str) -> None:
    """The keeper has forgotten the lane that the lock knows, and given its interval to another."""
    ttl = 0.37
    with Locks(private_server.url) as locks:
        lock = locks.lock("a", ttl=ttl)
        with lock:
            pass
        lanes = keeper().statistics()["lanes"]
        wait_for(lambda: keeper().statistics()["lanes"] < lanes, what="the keeper to forget the lane")
        younger = locks.lock("b", ttl=ttl)
        if way == "release":
            lock.acquire().release()
        elif way == "block":
            with lock, younger:
                pass
        else:
            held = lock.acquire()
            waiter = start(lambda: use(lock))
            wait_for(lambda: waiting(private_server, "a") == 1)
            held.release()
            waiter.result(10)
        assert keeper().statistics()["charges"] == 0


def use(lock: Lock) -> None:
    with lock:
        pass


def test_waits_that_time_out_leave_nothing(private_server: RunningServer) -> None:
    warm_up(private_server)
    threads, fds = set(threading.enumerate()), descriptors()

    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            results = await asyncio.gather(
                *(locks.lock("a", wait=1).acquire() for _ in range(200)), return_exceptions=True
            )
            assert {type(each).__name__ for each in results} == {"LockTimeout"}

    with Locks(private_server.url) as holder, holder.lock("a"):
        asyncio.run(main())
    all_back(private_server, threads, fds)


def test_a_lease_that_is_released_after_the_client_was_closed_leaves_nothing(
    private_server: RunningServer,
) -> None:
    warm_up(private_server)
    threads, fds = set(threading.enumerate()), descriptors()

    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            lease = await locks.lock("a").acquire()
        await lease.release()
        await asyncio.to_thread(wait_for, lambda: not private_server.clients())

    asyncio.run(main())
    with Locks(private_server.url) as locks:
        lease = locks.lock("a").acquire()
    lease.release()
    all_back(private_server, threads, fds)


def test_an_acquire_that_is_cancelled_while_it_connects_leaves_no_connection(
    private_server: RunningServer,
) -> None:
    warm_up(private_server)
    threads, fds = set(threading.enumerate()), descriptors()

    async def main() -> None:
        for turns in range(20):
            async with AsyncLocks(private_server.url) as locks:
                task = asyncio.create_task(locks.lock("a").acquire())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    lease = await task
                except asyncio.CancelledError:
                    pass
                else:
                    await lease.release()
        await asyncio.to_thread(wait_for, lambda: not private_server.clients())

    asyncio.run(main())
    all_back(private_server, threads, fds)


def test_a_close_that_is_cancelled_closes_all_the_same(private_server: RunningServer) -> None:
    warm_up(private_server)
    threads, fds = set(threading.enumerate()), descriptors()

    async def main() -> None:
        with Proxy(private_server.port) as proxy:
            locks = AsyncLocks(proxy.url)
            async with locks.lock("a"):
                pass
            held = proxy.hold_reply(b"DEL")
            closing = asyncio.create_task(locks.aclose())
            await asyncio.to_thread(held.wait)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            held.release()
            await asyncio.to_thread(wait_for, lambda: proxy.connections == 0)

    asyncio.run(main())
    all_back(private_server, threads, fds)
