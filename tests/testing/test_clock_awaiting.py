"""When time that passes in a task has to be awaited, and when not."""

from __future__ import annotations

import asyncio
import gc
import warnings

import pytest

from holdtight import AsyncLocks, LeaseLost, LockTimeout
from holdtight.testing import Clock
from holdtight.testing import loops as loops_module
from tests.testing.scene import play


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
