"""Time that passes when the test says so, for tasks and threads together, and for loops elsewhere."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from typing import Any

import pytest

from holdtight import AsyncLocks, DeadlockDetected, LeaseLost, Locks, LockTimeout
from holdtight.events import Event, Renewed
from holdtight.testing import Clock
from tests.testing.scene import play


def test_a_task_and_a_thread_wait_for_each_other_at_their_moments() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        log: list[tuple[str, float]] = []
        blocking = Locks(clock.store())

        def take(name: str) -> None:
            with blocking.lock("a"):
                log.append((name, clock.now()))

        async def take_async(name: str) -> None:
            async with locks.lock("a"):
                log.append((name, clock.now()))

        lease = blocking.lock("a", ttl=20, renew=False).acquire()
        actors: list[Any] = []
        for number in range(3):
            thread = threading.Thread(target=take, args=(f"thread {number}",))
            thread.start()
            clock.until_waiting(2 * number + 1)
            actors += thread, asyncio.create_task(take_async(f"task {number}"))
            await clock.advance(1)
        await clock.advance(60)
        assert lease.lost
        names = [f"{kind} {number}" for number in range(3) for kind in ("thread", "task")]
        assert log == [(name, 20.0) for name in names]
        for thread, task in zip(actors[::2], actors[1::2], strict=True):
            thread.join(10)
            await task
        blocking.close()

    play(scene)


def test_a_loop_in_another_thread_runs_at_its_moments_too() -> None:
    clock = Clock()
    log: list[tuple[str, float]] = []
    locks = Locks(clock.store())
    lease = locks.lock("a").acquire()

    async def wait() -> None:
        async with AsyncLocks(clock.store()) as tasks:
            for _ in range(3):
                with pytest.raises(LockTimeout):
                    await tasks.lock("a").acquire(wait=2)
                log.append(("timeout", clock.now()))
            async with tasks.lock("b", ttl=5, renew=False) as own:
                own.on_lost(lambda lost: log.append(("lost", clock.now())))
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.sleep(100)
                log.append(("cancelled", clock.now()))

    def life() -> None:
        with pytest.raises(LeaseLost):
            asyncio.run(wait())

    thread = threading.Thread(target=life)
    thread.start()
    clock.until_waiting()
    clock.advance(30)
    assert log[:3] == [("timeout", 2.0), ("timeout", 4.0), ("timeout", 6.0)]
    assert sorted(log[3:]) == [("cancelled", 10.948), ("lost", 10.948)]
    thread.join(10)
    assert not thread.is_alive()
    lease.release()
    locks.close()


def test_a_loop_that_is_not_running_is_not_waited_for() -> None:
    clock = Clock()
    loop = asyncio.new_event_loop()
    locks = AsyncLocks(clock.store())
    lost: list[float] = []

    async def take() -> Any:
        lease = await locks.lock("a", ttl=5, renew=False).acquire()
        lease.on_lost(lambda lost_one: lost.append(clock.now()))
        return lease

    lease = loop.run_until_complete(take())
    before = time.monotonic()
    clock.advance(10)
    assert time.monotonic() - before < 0.9
    assert (lease.lost, lost) == (True, [])
    loop.run_until_complete(asyncio.sleep(0))
    assert lost == [10.0], "it is told when it runs"
    locks.discard()
    loop.close()


def test_blocking_locks_in_a_task_cannot_wait_on_the_clock_that_it_moves() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        blocking = Locks(clock.store())

        async def block() -> None:
            blocking.lock("a").acquire(wait=5)

        async with locks.lock("a"):
            task = asyncio.create_task(block())
            await clock.advance(1)
            with pytest.raises(DeadlockDetected, match="event loop of this very thread"):
                task.result()
        lease = await locks.lock("a").acquire()  # which others might release
        task = asyncio.create_task(block())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            await clock.advance(1)
        with pytest.raises(RuntimeError, match="cannot wait on it"):
            task.result()
        await lease.release()
        blocking.close()

    play(scene)


def test_events_of_both_colours_are_in_the_order_of_time() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        log: list[tuple[float, str]] = []
        blocking = Locks(clock.store())

        def hear(event: Event) -> None:
            if isinstance(event, Renewed):
                log.append((clock.now(), event.name))

        locks.events.subscribe(hear)
        blocking.events.subscribe(hear)
        one = await locks.lock("one", ttl=6).acquire()
        two = blocking.lock("two", ttl=9).acquire()
        await clock.advance(9)
        assert log == [(2.0, "one"), (3.0, "two"), (4.0, "one"), (6.0, "one"), (6.0, "two"), (8.0, "one"), (9.0, "two")]
        await one.release()
        two.release()
        blocking.close()

    play(scene)
