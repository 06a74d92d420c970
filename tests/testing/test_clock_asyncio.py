"""Time that passes when the test says so, for tasks."""

from __future__ import annotations

import asyncio

import pytest

from holdtight import AsyncLocks, DeadlockDetected, LeaseLost, LockTimeout, LossReason
from holdtight.clients import cohort_line
from holdtight.testing import Clock
from tests.testing.scene import play


def test_a_lease_is_renewed_without_any_task_being_concerned() -> None:
    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        heard: list[tuple[float, str]] = []
        locks.events.subscribe(lambda event: heard.append((clock.now(), type(event).__name__)))
        async with locks.lock("a") as lease:
            clock.advance(10)  # no task has to run: it need not be awaited
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


def test_max_hold_counts_from_when_a_cohort_handed_the_lock_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cohort_line, "WINDOW", 100.0)

    async def scene(clock: Clock, locks: AsyncLocks) -> None:
        lock = locks.lock("a", cohort=True, max_hold=5)
        first = await lock.acquire()
        waiter = asyncio.create_task(lock.acquire())
        while not locks.cohort.waiters("a", locks):
            await asyncio.sleep(0)
        await clock.advance(0.5)
        await first.release()
        second = await waiter
        assert second.owner == first.owner
        await clock.advance(4.9)
        second.check()
        await clock.advance(0.2)
        assert second.reason is LossReason.MAX_HOLD

    play(scene)
