"""Locks with cohort=True when something breaks: cancelled tasks, forks, killed processes, loops that end."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks, OutOfMemory
from holdtight.clients import cohort_line as cohort
from tests.faults import forking, handing
from tests.faults.clients import tidy
from tests.support.processes import StartChild, wait_for
from tests.support.servers import RunningServer


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window does not close while a test runs, however busy the machine is."""
    monkeypatch.setattr(cohort, "WINDOW", 100.0)


async def in_line(locks: AsyncLocks, count: int) -> None:
    async with asyncio.timeout(30):
        while len(locks.cohort.waiters("a", locks)) != count:
            await asyncio.sleep(0.001)


def free_soon(url: str, name: str = "a") -> None:
    """Long before a ttl ends."""
    with Locks(url) as witness:
        witness.lock(name).acquire(wait=3).release()


@pytest.mark.usefixtures("wide")
def test_a_task_that_is_cancelled_after_it_was_handed_the_lock_passes_it_on(private_server: RunningServer) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            lock = locks.lock("a", cohort=True)
            lease = await lock.acquire()
            first = asyncio.create_task(lock.acquire())
            await in_line(locks, 1)
            second = asyncio.create_task(lock.acquire())
            await in_line(locks, 2)
            await lease.release()  # does not give way: `first` has the lock and has not run yet
            assert first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            handed = await asyncio.wait_for(second, 3)
            assert handed.owner == lease.owner
            assert handed.fence > lease.fence + 1, "the fence of the one that never had it is not given twice"
            await handed.release()

    asyncio.run(main())
    free_soon(private_server.url)
    tidy(private_server)


@pytest.mark.usefixtures("wide")
def test_the_last_task_of_a_line_that_is_cancelled_then_releases(private_server: RunningServer) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            lock = locks.lock("a", cohort=True)
            lease = await lock.acquire()
            only = asyncio.create_task(lock.acquire())
            await in_line(locks, 1)
            await lease.release()
            assert only.cancel()
            with pytest.raises(asyncio.CancelledError):
                await only
            await asyncio.to_thread(free_soon, private_server.url)
            async with lock:
                pass

    asyncio.run(main())
    tidy(private_server)


def test_tasks_that_are_cancelled_at_any_moment_leave_the_lock_and_the_line_alone(
    private_server: RunningServer,
) -> None:
    chance, inside, served, given_up = random.Random(7), 0, 0, 0

    async def worker(lock: Any) -> None:
        nonlocal inside, served
        while True:
            async with lock:
                inside += 1
                assert inside == 1
                if chance.random() < 0.3:
                    try:
                        await asyncio.sleep(0)
                    finally:
                        inside -= 1
                else:
                    inside -= 1
                served += 1

    async def main() -> None:
        nonlocal given_up
        async with AsyncLocks(private_server.url, ttl=20) as locks:
            lock = locks.lock("a", cohort=True)
            tasks = [asyncio.create_task(worker(lock)) for _ in range(16)]
            for _ in range(300):
                at = chance.randrange(len(tasks))
                for _ in range(chance.randrange(8)):
                    await asyncio.sleep(0)
                tasks[at].cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.wait_for(tasks[at], 10)
                given_up += 1
                tasks[at] = asyncio.create_task(worker(lock))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            async with asyncio.timeout(5):
                async with lock:
                    pass
            assert not locks.cohort._lines  # pyright: ignore[reportPrivateUsage]

    asyncio.run(main())
    assert inside == 0
    assert served > 100
    assert given_up == 300
    free_soon(private_server.url)
    tidy(private_server)


@pytest.mark.usefixtures("wide")
def test_a_member_whose_loop_was_closed_is_passed_over(private_server: RunningServer) -> None:
    """It can neither run nor be cancelled any more."""

    async def main() -> None:
        lock = locks.lock("a", cohort=True)
        lease = await lock.acquire()
        ended = asyncio.new_event_loop()
        gone = ended.create_task(lock.acquire())
        await asyncio.to_thread(ended.run_until_complete, in_line(locks, 1))
        ended.close()
        living = asyncio.create_task(lock.acquire())
        await in_line(locks, 2)
        await lease.release()
        handed = await asyncio.wait_for(living, 3)
        assert handed.owner == lease.owner
        await handed.release()
        await locks.aclose()
        gone._log_destroy_pending = False  # type: ignore[attr-defined]

    locks = AsyncLocks(private_server.url)
    asyncio.run(main())
    tidy(private_server)


def test_a_forked_child_has_neither_the_lock_nor_the_line_of_its_parent(
    private_server: RunningServer, start_child: StartChild
) -> None:
    child = start_child(forking.in_a_cohort, private_server.url)
    assert child.lines(30) == ["child 0", "served"], child.errors
    assert child.wait() == 0, child.errors


def test_fences_rise_after_a_process_was_killed_in_the_middle_of_a_batch(
    private_server: RunningServer, start_child: StartChild
) -> None:
    child = start_child(handing.print_fences, private_server.url)
    fences = [int(child.wait_line()) for _ in range(200)]
    child.kill()
    fences += [int(line) for line in child.lines() if len(line) == 16]
    assert fences == sorted(set(fences))
    with Locks(private_server.url) as locks:
        known = locks.inspect("a").fence
        assert known is not None
        assert known >= max(fences), "the next fence would depend on the clock alone"
        with locks.lock("a", wait=20) as lease:
            assert lease.fence > known


def test_each_of_two_clients_gets_its_share(private_server: RunningServer) -> None:
    """Both lines are never empty: neither may keep the lock to itself."""
    counts, over = [0, 0], threading.Event()

    def work(at: int, locks: Locks) -> None:
        while not over.is_set():
            with locks.lock("a", cohort=True):
                counts[at] += 1

    with Locks(private_server.url) as one, Locks(private_server.url) as two:
        threads = [threading.Thread(target=work, args=(at % 2, (one, two)[at % 2])) for at in range(8)]
        for thread in threads:
            thread.start()
        wait_for(lambda: sum(counts) > 3_000, within=60)
        over.set()
        for thread in threads:
            thread.join()
    assert min(counts) > sum(counts) / 4, counts


def test_a_thread_that_is_starved_after_it_was_handed_the_lock_does_not_use_it_too_late(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes up when the grant has expired: then it asks the server."""
    monkeypatch.setattr(cohort, "WINDOW", 100.0)
    with Locks(private_server.url) as locks:
        lock = locks.lock("a", cohort=True, ttl=0.4, renew=False)
        found = list[Any]()
        lease = lock.acquire()
        waiter = threading.Thread(target=lambda: found.append(lock.acquire()))
        waiter.start()
        wait_for(lambda: locks.cohort.waiters("a", locks))
        (member,) = locks.cohort._lines["a", 0.4, None].members  # pyright: ignore[reportPrivateUsage]
        put = member._sleeper.wake  # type: ignore[attr-defined]
        member._sleeper.wake = lambda woken: threading.Timer(0.6, put, [woken]).start()  # type: ignore[attr-defined]
        lease.release()
        waiter.join(10)
        (late,) = found
        late.check()
        assert late.owner != lease.owner
        assert late.remaining() > 0
        late.release()


def test_a_line_is_served_from_another_process_although_the_server_is_out_of_memory(
    private_server: RunningServer,
) -> None:
    """What is handed over takes no new memory. A caller of a free lock is turned away, and keeps nobody out."""
    served, refused = list[int](), list[OutOfMemory]()

    def wait_in_line() -> None:
        with locks.lock("a", cohort=True, wait=20) as lease:
            served.append(lease.fence)

    def ask() -> None:
        with pytest.raises(OutOfMemory) as caught:
            locks.lock("b", cohort=True, wait=20).acquire()
        refused.append(caught.value)

    private_server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    with Locks(private_server.url) as other, Locks(private_server.url) as locks:
        lease = other.lock("a").acquire()
        in_line = [threading.Thread(target=wait_in_line) for _ in range(3)]
        for thread in in_line:
            thread.start()
        wait_for(lambda: len(locks.cohort.waiters("a", locks)) == 2 and other.inspect("a").waiting == 1)
        private_server.command("CONFIG", "SET", "maxmemory", "1")
        lease.release()
        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        for thread in in_line + asking:
            thread.join(20)
        private_server.command("CONFIG", "SET", "maxmemory", "0")
        assert [lease.fence, *served] == sorted({lease.fence, *served})
        assert (len(served), len(refused)) == (3, 3)
        assert not locks.cohort._lines  # pyright: ignore[reportPrivateUsage]
        locks.lock("b", cohort=True).acquire(wait=3).release()
    free_soon(private_server.url)


@pytest.mark.usefixtures("wide")
def test_members_pass_the_lock_along_although_the_server_is_out_of_memory(private_server: RunningServer) -> None:
    fences = list[int]()

    def wait_in_line() -> None:
        with lock as lease:
            fences.append(lease.fence)

    private_server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    with Locks(private_server.url) as locks:
        lock = locks.lock("a", cohort=True)
        with lock as lease:
            threads = [threading.Thread(target=wait_in_line) for _ in range(3)]
            for thread in threads:
                thread.start()
            wait_for(lambda: len(locks.cohort.waiters("a", locks)) == 3)
            private_server.command("CONFIG", "SET", "maxmemory", "1")
        for thread in threads:
            thread.join(20)
        assert fences == [lease.fence + number for number in (1, 2, 3)]
        assert not lock.locked()
        private_server.command("CONFIG", "SET", "maxmemory", "0")
