"""Threads and tasks on one store: they exclude each other, wait for each other, and ring each other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from holdtight import AsyncLocks, Locks, LockTimeout, LossReason
from holdtight.stores.memory.place import stores
from tests.support.leases import renewed
from tests.support.processes import wait_for

URL = "memory://both"


@pytest.fixture
def locks() -> Iterator[Locks]:
    with Locks(URL) as locks:
        yield locks


def test_a_thread_and_a_task_exclude_each_other(locks: Locks) -> None:
    async def main() -> None:
        async with AsyncLocks(URL) as tasks:
            async with tasks.lock("a"):
                assert locks.lock("a").try_acquire() is None
            with locks.lock("a"), pytest.raises(LockTimeout):
                await tasks.lock("a").acquire(wait=0)

    asyncio.run(main())


def test_a_task_that_waits_is_rung_by_a_thread(locks: Locks) -> None:
    async def main() -> None:
        async with AsyncLocks(URL) as tasks:
            lease = locks.lock("a").acquire()
            waiting = asyncio.create_task(tasks.lock("a").acquire(wait=20))
            while locks.inspect("a").waiting == 0:
                await asyncio.sleep(0)
            started = time.monotonic()
            threading.Thread(target=lease.release).start()
            got = await waiting
            assert time.monotonic() - started < 5, "by its bell, not by its look after 30 s"
            assert got.fence > lease.fence
            await got.release()

    asyncio.run(main())


def test_a_thread_that_waits_is_rung_by_a_task(locks: Locks) -> None:
    got: list[float] = []

    def wait() -> None:
        with locks.lock("a", wait=20):
            got.append(time.monotonic())

    async def main() -> None:
        async with AsyncLocks(URL) as tasks:
            async with tasks.lock("a"):
                thread.start()
                while locks.inspect("a").waiting == 0:
                    await asyncio.sleep(0)
            released = time.monotonic()
            await asyncio.to_thread(thread.join, 10)
            assert got[0] - released < 5

    thread = threading.Thread(target=wait)
    asyncio.run(main())


def test_threads_and_tasks_of_several_loops_lose_no_update(locks: Locks) -> None:
    count = inside = 0

    def step() -> None:
        nonlocal count, inside
        inside += 1
        assert inside == 1
        before = count
        time.sleep(0)
        count = before + 1
        inside -= 1

    def work() -> None:
        for _ in range(25):
            with locks.lock("count"):
                step()

    async def work_on_a_loop(tasks: AsyncLocks) -> None:
        for _ in range(25):
            async with tasks.lock("count"):
                step()
                await asyncio.sleep(0)

    async def loop(tasks: AsyncLocks) -> None:
        await asyncio.gather(*(work_on_a_loop(tasks) for _ in range(3)))

    shared = AsyncLocks(URL)
    threads = [threading.Thread(target=work) for _ in range(3)]
    threads += [threading.Thread(target=lambda: asyncio.run(loop(shared))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert count == 3 * 25 + 2 * 3 * 25


def test_waiters_of_both_colours_are_served_in_the_order_of_the_line(locks: Locks) -> None:
    served: list[str] = []

    def thread(name: str) -> None:
        with locks.lock("a", label=name):
            served.append(name)

    async def task(tasks: AsyncLocks, name: str) -> None:
        async with tasks.lock("a", label=name):
            served.append(name)

    async def main() -> None:
        async with AsyncLocks(URL) as tasks:
            lease = await tasks.lock("a").acquire()
            actors: list[asyncio.Future[None]] = []
            for number in range(6):
                name = f"{number}"
                ours = task(tasks, name) if number % 2 else asyncio.to_thread(thread, name)
                actors.append(asyncio.ensure_future(ours))
                while len((await tasks.inspect("a")).waiters) <= number:
                    await asyncio.sleep(0.001)
            await lease.release()
            await asyncio.gather(*actors)

    asyncio.run(main())
    assert served == ["0", "1", "2", "3", "4", "5"]


def test_a_task_whose_loop_is_gone_costs_the_others_one_claim_window(locks: Locks) -> None:
    """Its loop was stopped in the middle of its wait: no task is left to be woken there."""
    loop = asyncio.new_event_loop()
    lease = locks.lock("a").acquire()

    async def wait() -> None:
        await AsyncLocks(URL).lock("a").acquire()

    task = loop.create_task(wait())
    while locks.inspect("a").waiting == 0:
        loop.run_until_complete(asyncio.sleep(0))
    lease.release()
    started = time.monotonic()
    locks.lock("a").acquire(wait=10).release()
    assert time.monotonic() - started < 5
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


def test_closing_a_client_wakes_nobody_elses_waiters(locks: Locks) -> None:
    other = Locks(URL)
    lease = locks.lock("a").acquire()
    waiting = threading.Thread(target=lambda: other.lock("a").acquire(wait=20).release())
    waiting.start()
    wait_for(lambda: locks.inspect("a").waiting == 1)
    with Locks(URL) as third, third.lock("b"):
        pass
    assert locks.inspect("a").waiting == 1
    lease.release()
    waiting.join(10)
    assert not waiting.is_alive()
    other.close()


def test_a_lease_is_renewed_while_its_loop_is_blocked() -> None:
    async def main() -> None:
        async with AsyncLocks(URL) as tasks, tasks.lock("a", ttl=3) as lease:
            renewed(lease)  # which blocks the loop

    asyncio.run(main())


def test_a_store_that_lost_its_data_is_noticed_by_both(locks: Locks) -> None:
    lease = locks.lock("a", ttl=2).acquire()

    async def main() -> None:
        async with AsyncLocks(URL) as tasks:
            other = await tasks.lock("b", ttl=2).acquire()
            stores.server("both").forget_everything()
            assert await other.wait_lost(10)
            assert other.reason is LossReason.EXPIRED

    asyncio.run(main())
    assert lease.wait_lost(10)
    assert lease.reason is LossReason.EXPIRED
