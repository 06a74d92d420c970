"""Nested blocks: the block of the lost lease raises."""

# ruff: noqa: PT012 -- it is the whole block that raises

from __future__ import annotations

import asyncio

import pytest

from holdtight import AsyncLocks, LeaseLost, Locks
from holdtight.grants.lease import BaseLease
from tests.faults.test_loss_in_a_block import lose, nothing_comes_after, run
from tests.support.servers import RunningServer


def test_the_outer_lease_is_lost_while_the_body_is_in_an_inner_block(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.raises(LeaseLost) as raised:
            async with locks.lock("outer") as outer, locks.lock("inner") as inner:
                lose(outer)
                await asyncio.Event().wait()
        assert raised.value.name == "outer"
        assert not inner.lost
        assert not await locks.lock("inner").locked(), "the inner one was released on the way out"
        await nothing_comes_after()

    run(private_server, test)


def test_the_inner_lease_is_lost_and_the_outer_block_goes_on(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        async with locks.lock("outer") as outer:
            with pytest.raises(LeaseLost) as raised:
                async with locks.lock("inner") as inner:
                    lose(inner)
                    await asyncio.Event().wait()
            assert raised.value.name == "inner"
            outer.check()
            await nothing_comes_after()
        await nothing_comes_after()

    run(private_server, test)


def test_both_leases_are_lost_at_once(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.raises(LeaseLost) as raised:
            async with locks.lock("outer") as outer, locks.lock("inner") as inner:
                lose(outer)
                lose(inner)
                await asyncio.Event().wait()
        assert raised.value.name in ("outer", "inner")
        await nothing_comes_after()

    run(private_server, test)


def test_the_lease_is_lost_during_an_acquire_inside_the_block(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        held = witness.lock("inner").acquire()
        with pytest.raises(LeaseLost) as raised:
            async with locks.lock("outer") as outer:
                waiter = asyncio.create_task(asyncio.to_thread(lose_when_in_line, outer))
                async with locks.lock("inner"):
                    raise AssertionError("the inner lock is held by another")
        await waiter
        assert raised.value.name == "outer"
        assert witness.inspect("inner").waiting == 0, "the cancelled acquire has left the line"
        held.release()
        await nothing_comes_after()

    def lose_when_in_line(lease: BaseLease) -> None:
        while witness.inspect("inner").waiting == 0:
            pass
        lose(lease)

    with Locks(private_server.url) as witness:
        run(private_server, test)


def after_turns(turns: int, lease: BaseLease) -> None:
    """Loses it after that many turns of the loop."""
    if turns:
        asyncio.get_running_loop().call_soon(after_turns, turns - 1, lease)
    else:
        lose(lease)


def test_the_lease_is_lost_during_the_release_of_an_inner_block(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        for turns in range(6):
            lost = False
            try:
                async with locks.lock("outer") as outer:
                    async with locks.lock("inner"):
                        after_turns(turns, outer)
                    await asyncio.sleep(0.01)
            except LeaseLost as error:
                lost = error.name == "outer"
            assert lost
            await nothing_comes_after()
            # At once, or as soon as the keeper has sent it: a release that was cut short.
            free = await locks.lock("inner").acquire(wait=2)
            await free.release()

    run(private_server, test)


def test_a_grant_that_is_entered_twice_cancels_whichever_body_runs(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        lock = locks.lock("a", reentrant=True)
        with pytest.raises(LeaseLost):
            async with lock as outer:
                async with lock:
                    await asyncio.sleep(0)
                lose(outer)
                async with asyncio.timeout(2):
                    await asyncio.Event().wait()
        await nothing_comes_after()
        with pytest.raises(LeaseLost):
            async with lock, lock as inner:
                lose(inner)
                async with asyncio.timeout(2):
                    await asyncio.Event().wait()
        await nothing_comes_after()

    run(private_server, test)


def test_a_hold_cancels_nobody(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.raises(LeaseLost):
            async with locks.lock("a").hold() as lease:
                lose(lease)
                for _ in range(5):
                    await asyncio.sleep(0)
                assert await lease.wait_lost(1)
        await nothing_comes_after()

    run(private_server, test)
