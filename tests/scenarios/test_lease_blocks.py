"""A lease as a context manager: its block ends as that of `with lock` does, and counts as one."""

# ruff: noqa: PT012 -- it is the whole block that raises

import asyncio
from contextlib import AsyncExitStack

import pytest

from holdtight import AsyncLease, DeadlockDetected, LeaseLost, LockTimeout, LossReason, NotOwner
from tests.scenarios.world import World


async def test_the_block_of_a_lease_releases_it(world: World) -> None:
    lock = world.lock()
    async with await lock.acquire() as lease:
        lease.check()
        assert (await lock.inspect()).holders[0].owner == lease.owner
    assert not await lock.locked()
    with pytest.raises(NotOwner):
        lease.check()


async def test_what_try_acquire_gives_can_be_entered(world: World) -> None:
    lock = world.lock()
    lease = await lock.try_acquire()
    assert lease is not None
    async with lease as entered:
        assert entered is lease
        assert await world.apart(lock.try_acquire()) is None
    assert not await lock.locked()


async def test_an_exception_goes_through_and_the_lock_is_released(world: World) -> None:
    lock = world.lock()
    with pytest.raises(ZeroDivisionError):
        async with await lock.acquire():
            _ = 1 / 0
    assert not await lock.locked()


async def test_a_lease_that_was_released_in_its_block_ends_quietly(world: World) -> None:
    async with await world.lock().acquire() as lease:
        await lease.release()
    async with world.lock():
        pass


async def test_a_lease_cannot_be_entered_twice(world: World) -> None:
    lock = world.lock()
    async with await lock.acquire() as lease:
        with pytest.raises(RuntimeError, match="'thing' is in a with block already"):
            async with lease:
                raise AssertionError
        lease.check()
    with pytest.raises(RuntimeError, match="'thing' has been released and cannot be entered: acquire the lock again"):
        async with lease:
            raise AssertionError
    assert not await lock.locked()


async def test_a_lease_that_a_block_has_cannot_be_entered_by_anybody(world: World) -> None:
    async def enter(lease: AsyncLease) -> None:
        with pytest.raises(RuntimeError, match="in a with block already"):
            async with lease:
                raise AssertionError
        lease.check()

    lock = world.lock()
    async with world.lock("other"), lock as lease:  # inside of another block, an acquisition is not the usual one
        await enter(lease)
        await world.apart(enter(lease))
    async with lock as lease:
        await enter(lease)
        await world.apart(enter(lease))
    async with lock.hold() as lease:
        await enter(lease)
        await world.apart(enter(lease))
    async with world.client.multi("a", "b") as lease:
        await enter(lease)
        await world.apart(enter(lease))
    async with await world.client.multi("a", "b").acquire() as lease:
        await enter(lease)


async def test_a_lease_that_was_released_cannot_be_entered(world: World) -> None:
    lease = await world.lock().acquire()
    await lease.release()
    with pytest.raises(RuntimeError, match="has been released"):
        async with lease:
            raise AssertionError


async def test_the_body_of_a_lease_that_is_lost_does_not_begin(world: World) -> None:
    lease = await world.lock(ttl=0.1, renew=False).acquire()
    assert await lease.wait_lost(10)
    with pytest.raises(LeaseLost) as caught:
        async with lease:
            raise AssertionError
    assert caught.value.reason is LossReason.EXPIRED


async def test_a_loss_in_the_block_comes_out_at_its_end(world: World) -> None:
    with pytest.raises(LeaseLost) as caught:
        async with await world.lock(ttl=1.2).acquire() as lease:
            world.server.flushall()
            await world.until(lambda: lease.lost)
    assert caught.value.reason is LossReason.EXPIRED


async def test_the_bodys_own_exception_goes_through_with_the_loss_as_a_note(world: World) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with await world.lock().acquire() as lease:
            lease.tenure.lose(LossReason.FORCED)
            _ = 1 / 0
    assert any("is lost" in note for note in caught.value.__notes__)


async def test_the_body_of_an_async_with_is_cancelled_when_the_lease_is_lost(world: World) -> None:
    if world.blocking:
        return
    with pytest.raises(LeaseLost):
        async with await world.lock(ttl=1.2).acquire():
            world.server.flushall()
            await asyncio.Event().wait()


@pytest.mark.locks_only("permits have a deadlock of their own")
async def test_asking_again_inside_is_a_deadlock_as_in_the_block_of_a_lock(world: World) -> None:
    lock = world.lock()
    async with await lock.acquire():
        with pytest.raises(DeadlockDetected, match="already held by this very"):
            await lock.acquire()
        assert await lock.try_acquire() is None
    async with await world.client.multi("thing", "b").acquire():
        with pytest.raises(DeadlockDetected, match="'thing' is already held by this very"):
            await lock.acquire()
    async with lock:
        pass


@pytest.mark.locks_only("a permit is not entered again")
async def test_a_grant_that_is_entered_again_ends_with_its_last_handle(world: World) -> None:
    lock = world.lock(reentrant=True)
    async with await lock.acquire() as outer:
        async with await lock.acquire() as inner:
            assert inner.fence == outer.fence
        outer.check()
        async with lock:
            pass
        assert await lock.locked()
    assert not await lock.locked()


@pytest.mark.locks_only("a permit cannot be handed over")
async def test_an_adopted_lease_is_released_by_its_block(world: World) -> None:
    text = await (await world.lock(ttl=20).acquire()).detach()
    async with await world.client.adopt(text) as lease:
        lease.check()
    assert not await world.lock().locked()


@pytest.mark.locks_only("a permit cannot be handed over")
async def test_what_is_detached_in_the_block_stays_held(world: World) -> None:
    async with await world.lock(ttl=20).acquire() as lease:
        text = await lease.detach()
    assert await world.lock().locked()
    await (await world.client.adopt(text)).release()


@pytest.mark.locks_only("a permit cannot be downgraded")
async def test_the_block_of_a_lease_that_was_downgraded_releases_its_successor(world: World) -> None:
    lock = world.client.rwlock("thing")
    async with await lock.write().acquire() as lease:
        reading = await lease.downgrade()
        with pytest.raises(RuntimeError, match="in a with block already"):
            async with reading:
                raise AssertionError
        reading.check()
    assert not await lock.locked()


async def test_blocks_that_end_in_another_order_release_their_own_leases(world: World) -> None:
    permits = world.client.semaphore("several", permits=3)
    stack = AsyncExitStack()
    async with permits as first:
        second = await stack.enter_async_context(await permits.acquire())
        first.check()
    second.check()
    assert [holder.owner for holder in (await permits.inspect()).holders] == [second.owner]
    await stack.aclose()
    assert not await permits.locked()


@pytest.mark.no_cohort("cannot be part of a multi")
async def test_several_locks_are_released_by_the_block_of_their_lease(world: World) -> None:
    multi = world.client.multi(world.lock("a"), "b", "c")
    async with await multi.acquire() as lease:
        assert set(lease.fences) == {"a", "b", "c"}
        assert await multi.locked()
    assert not await multi.locked()


async def test_a_block_that_is_left_elsewhere_is_ended_with_an_error(world: World) -> None:
    async def leave(stack: AsyncExitStack) -> None:
        with pytest.raises(RuntimeError, match="left in another thread or task"):
            await stack.aclose()

    for lock in (world.lock(), world.client.multi("a", "b")):
        stack = AsyncExitStack()
        lease = await lock.acquire()
        await stack.enter_async_context(lease)
        await world.apart(leave(stack))
        with pytest.raises(NotOwner):
            lease.check()
        await world.apart((await world.apart(lock.acquire(wait=10))).release())
        async with lock:  # nothing of it is left with this thread or task
            pass


@pytest.mark.parametrize("by", ["lock", "lease"])
@pytest.mark.no_cohort("cannot be part of a multi")
async def test_asking_for_ones_own_without_waiting_is_a_timeout_that_says_whose_it_is(world: World, by: str) -> None:
    lock = world.lock()
    own = f"'thing' not acquired .*: held by this very {'thread' if world.blocking else 'task'}, in a block"
    async with lock if by == "lock" else await lock.acquire() as lease:
        assert await lock.try_acquire() is None
        with pytest.raises(LockTimeout, match=own) as caught:
            await lock.acquire(wait=0)
        assert caught.value.holder is not None
        assert (caught.value.holder.owner, caught.value.holder.fence) == (lease.owner, lease.fence)
        with pytest.raises(LockTimeout, match=own):
            async with lock.hold(wait=0):
                raise AssertionError
        with pytest.raises(LockTimeout, match=own):
            async with world.lock(wait=0):
                raise AssertionError
        multi = world.client.multi(lock, "other")
        assert await multi.try_acquire() is None
        with pytest.raises(LockTimeout, match=own):
            await multi.acquire(wait=0)
        with pytest.raises(DeadlockDetected):
            await lock.acquire(wait=0.001)
