"""Time that passes when the test says so, for tasks, and for tasks and threads together."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdtight import AsyncLocks, DeadlockDetected, LeaseLost, Locks, LockTimeout, LossReason
from holdtight.events import Event, Renewed
from holdtight.testing import Clock
from holdtight.testing import loops as loops_module

Scene = Callable[[Clock, AsyncLocks], Awaitable[None]]


def play(scene: Scene) -> None:
    async def main() -> None:
        clock = Clock()
        async with AsyncLocks(clock.store(), ttl=9) as locks:
            await asyncio.wait_for(scene(clock, locks), 20)

    asyncio.run(main())


def test_a_lease_is_renewed_without_any_task_being_concerned() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        heard: list[tuple[float, str]] = []
        locks.events.subscribe(lambda event: heard.append((clock.now(), type(event).__name__)))
        async with locks.lock("a") as lease:
            clock.advance(10)  # nobody has to run: need not be awaited
            assert clock.now() == 10
            lease.check()
        assert heard == [(0.0, "Acquired"), (3.0, "Renewed"), (6.0, "Renewed"), (9.0, "Renewed"), (10.0, "Released")]

    play(scene)


def test_a_body_is_cancelled_at_the_moment_of_the_loss() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        cancelled: list[float] = []

        async def work() -> None:
            async with locks.lock("a", ttl=5, renew=False):
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    cancelled.append(clock.now())
                    raise

        task = asyncio.create_task(work())
        await clock.advance(0)
        await clock.advance(60)
        assert cancelled == [4.948]
        assert clock.now() == 60
        assert task.done()
        with pytest.raises(LeaseLost) as caught:
            task.result()
        assert caught.value.reason is LossReason.EXPIRED

    play(scene)


def test_tasks_that_have_not_begun_yet_begin_before_the_time_moves() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        async with locks.lock("a"):
            task = asyncio.create_task(locks.lock("a").acquire(wait=5))
            await clock.advance(5)
            with pytest.raises(LockTimeout) as caught:
                task.result()
            assert caught.value.waited == 5

    play(scene)


def test_tasks_wait_and_end_in_the_order_of_time() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        log: list[tuple[float, str]] = []

        async def wait(name: str, seconds: float) -> None:
            for _ in range(3):
                with pytest.raises(LockTimeout):
                    await locks.lock("a").acquire(wait=seconds)
                log.append((clock.now(), name))

        lease = await locks.lock("a").acquire()
        tasks = [asyncio.create_task(wait("slow", 3)), asyncio.create_task(wait("quick", 2))]
        await clock.advance(20)
        assert all(task.done() for task in tasks)
        assert log == [(2.0, "quick"), (3.0, "slow"), (4.0, "quick"), (6.0, "slow"), (6.0, "quick"), (9.0, "slow")]
        await lease.release()

    play(scene)


def test_a_chain_of_hand_overs_happens_at_one_moment() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        log: list[tuple[int, float]] = []

        async def turn(number: int) -> None:
            async with locks.lock("a"):
                log.append((number, clock.now()))
                for _ in range(10):
                    await asyncio.sleep(0)

        lease = await locks.lock("a").acquire()
        tasks = [asyncio.create_task(turn(number)) for number in range(20)]
        await clock.advance(2)
        assert clock.waiting == 20
        await lease.release()
        await clock.advance(1)
        assert log == [(number, 2.0) for number in range(20)]
        await asyncio.gather(*tasks)

    play(scene)


def test_callbacks_of_a_loss_have_been_called_when_it_was_awaited() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        called: list[float] = []
        lease = await locks.lock("a", ttl=1, renew=False).acquire()
        lease.on_lost(lambda lost: called.append(clock.now()))
        await clock.advance(5)
        assert called == [0.988]

    play(scene)


def test_waiting_for_a_loss_ends_with_it_or_with_its_time() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        lease = await locks.lock("a", ttl=10, renew=False).acquire()

        async def wait(timeout: float | None) -> tuple[bool, float]:
            return await lease.wait_lost(timeout), clock.now()

        tasks = [asyncio.create_task(wait(3)), asyncio.create_task(wait(None))]
        await clock.advance(60)
        assert [task.result() for task in tasks] == [(False, 3.0), (True, 9.898)]

    play(scene)


def test_renewing_and_detaching_take_a_turn_of_the_loop_and_no_time() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        lease = await locks.lock("a").acquire()
        await lease.renew(100)
        assert lease.remaining() == pytest.approx(98.998)
        text = await lease.detach(ttl=50)
        await clock.advance(49)
        adopted = await locks.adopt(text)
        await clock.advance(1000)
        await adopted.release()

    play(scene)


def test_a_cancelled_wait_leaves_the_line() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        async with locks.lock("a"):
            task = asyncio.create_task(locks.lock("a").acquire())
            await clock.advance(1)
            assert (await locks.inspect("a")).waiting == 1
            task.cancel()
            await clock.advance(0)
            assert task.cancelled()
            assert clock.waiting == 0
            assert (await locks.inspect("a")).waiting == 0

    play(scene)


def test_max_hold_and_a_deadlock_come_at_their_time() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        found: list[float] = []

        async def hold_and_want(first: str, second: str) -> None:
            try:
                async with locks.lock(first):
                    await asyncio.sleep(0)
                    async with locks.lock(second):
                        pass
            except DeadlockDetected:
                found.append(clock.now())

        tasks = [asyncio.create_task(hold_and_want(*names)) for names in (("x", "y"), ("y", "x"))]
        lease = await locks.lock("a", max_hold=20).acquire()
        await clock.advance(30)
        assert len(found) == 1
        assert 1 <= found[0] <= 3
        assert lease.reason is LossReason.MAX_HOLD
        await asyncio.gather(*tasks)

    play(scene)


# Awaiting.


def test_what_was_not_awaited_although_a_task_had_to_run_is_told() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        lease = await locks.lock("a").acquire()
        task = asyncio.create_task(locks.lock("a").acquire(wait=5))
        await clock.advance(1)
        with pytest.warns(RuntimeWarning, match=r"advance\(60\).* was never awaited"):
            clock.advance(60)
        assert clock.now() == 5, "it stopped where the task had to run"
        await clock.advance(1)
        assert isinstance(task.exception(), LockTimeout)
        await lease.release()

    play(scene)


def test_what_was_awaited_or_had_nothing_to_await_is_not_told() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            async with locks.lock("a"):
                clock.advance(60)
                await clock.advance(60)
                advance = clock.advance(60)
                await advance
                await advance
            del advance
            gc.collect()
        assert clock.now() == 180

    play(scene)


def test_an_advance_that_is_under_way_comes_to_its_end_first() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        lease = await locks.lock("a").acquire()
        task = asyncio.create_task(locks.lock("a").acquire(wait=5))
        await clock.advance(1)
        under_way = clock.advance(60)
        with pytest.raises(RuntimeError, match="await it first"):
            clock.advance(1)
        await under_way
        assert clock.now() == 61
        assert isinstance(task.exception(), LockTimeout)
        await lease.release()

    play(scene)


def test_a_body_that_awaits_the_time_in_which_it_is_cancelled_leaves_it_there() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(LeaseLost):
                async with locks.lock("a", ttl=5, renew=False):
                    await clock.advance(60)
            gc.collect()
        assert clock.now() == 4.948
        await clock.advance(1)
        assert clock.now() == 5.948

    play(scene)


def test_a_task_that_never_rests_does_not_keep_the_time_from_passing() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        async def spin() -> None:
            while True:
                await asyncio.sleep(0)

        spinning = asyncio.create_task(spin())
        async with locks.lock("a"):
            task = asyncio.create_task(locks.lock("a").acquire(wait=5))
            await clock.advance(10)
            assert clock.now() == 10
            assert isinstance(task.exception(), LockTimeout)
        spinning.cancel()

    play(scene)


def test_a_loop_that_does_not_show_what_it_has_to_do_is_given_some_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As uvloop."""
    monkeypatch.setattr(loops_module, "_ready", lambda loop: None)

    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        async with locks.lock("a"):
            task = asyncio.create_task(locks.lock("a").acquire(wait=5))
            await clock.advance(10)
            assert clock.now() == 10
            assert isinstance(task.exception(), LockTimeout)
            with pytest.warns(RuntimeWarning, match="never awaited"):
                clock.advance(1)

    play(scene)


# Tasks and threads.


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
            with pytest.raises(RuntimeError, match="cannot wait on it"):
                task.result()
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
