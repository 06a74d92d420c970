"""A holder learns of a lost lease in every possible way, and once."""

import asyncio
import time
from typing import Any

import pytest

from holdtight import LeaseLost, LossReason, NotOwner
from tests.scenarios.world import Stopwatch, World, main_key


async def test_an_unrenewed_lease_expires_and_says_so(world: World) -> None:
    lock = world.lock(ttl=0.1, renew=False)
    lease = await lock.acquire()
    assert await lease.wait_lost(10)
    assert (lease.lost, lease.reason, lease.remaining()) == (True, LossReason.EXPIRED, 0)
    with pytest.raises(LeaseLost, match=rf"'thing' \(fence {lease.fence}\) is lost") as caught:
        lease.check()
    assert (caught.value.reason, caught.value.code) == (LossReason.EXPIRED, "WATCHDOG_RENEWAL_FAILED")
    assert "lost" in repr(lease)


async def test_the_holder_knows_before_anybody_else_can_have_it(world: World) -> None:
    lease = await world.lock(ttl=0.1, renew=False).acquire()
    other = await world.lock(of=world.locks()).acquire(wait=10)
    assert lease.lost
    await other.release()


async def test_the_callback_is_called_once_with_the_lease(world: World) -> None:
    called: list[Any] = []
    lease = await world.lock(ttl=0.1, renew=False).acquire()
    lease.on_lost(called.append)
    await world.until(lambda: called)
    assert lease.lost
    with pytest.raises(NotOwner):
        await lease.release()
    await world.sleep(0.05)
    assert called == [lease]


async def test_a_callback_for_what_is_lost_already_is_called_at_once(world: World) -> None:
    lease = await world.lock(ttl=0.05, renew=False).acquire()
    await lease.wait_lost(10)
    called: list[Any] = []
    lease.on_lost(called.append)
    await world.until(lambda: called == [lease])


async def test_a_callback_that_fails_harms_neither_the_next_nor_the_lease(world: World) -> None:
    called: list[Any] = []
    lease = await world.lock(ttl=0.1, renew=False).acquire()
    if world.blocking:  # the loop handles exceptions of callbacks by itself
        lease.on_lost(lambda lease: 1 / 0)
    lease.on_lost(called.append)
    lease.on_lost(called.append)
    await world.until(lambda: len(called) == 2)


async def test_nobody_is_called_for_a_lease_that_was_released(world: World) -> None:
    called: list[Any] = []
    lease = await world.lock(ttl=0.1, renew=False).acquire()
    lease.on_lost(called.append)
    await lease.release()
    await world.sleep(0.2)
    assert not called
    assert not lease.lost
    assert not await lease.wait_lost(0)


async def test_waiting_for_the_loss_ends_with_its_timeout(world: World) -> None:
    lease = await world.lock().acquire()
    clock = Stopwatch()
    assert not await lease.wait_lost(0.05)
    assert 0.04 < clock.seconds < 5
    await lease.release()


async def test_release_after_expiry_is_an_error_that_gives_the_reason(world: World) -> None:
    lease = await world.lock(ttl=0.05, renew=False).acquire()
    await world.until(lambda: world.server.command("PTTL", main_key("thing")) <= 10_000)
    with pytest.raises(NotOwner, match="cannot release 'thing'") as caught:
        await lease.release()
    assert (caught.value.reason, caught.value.code) == (LossReason.EXPIRED, "UNLOCK_FAILED")
    assert isinstance(caught.value, LeaseLost)
    await lease.release()  # said once


async def test_release_of_what_another_has_by_now_is_an_error_and_leaves_it_alone(world: World) -> None:
    lease = await world.lock(ttl=0.05, renew=False).acquire()
    async with world.lock(of=world.locks(), wait=10) as other:
        with pytest.raises(NotOwner):
            await lease.release()
        assert (await world.lock().inspect()).holders[0].owner == other.owner


async def test_release_of_what_the_server_has_forgotten_is_an_error(world: World) -> None:
    lease = await world.lock(ttl=20).acquire()
    world.server.flushall()
    with pytest.raises(NotOwner) as caught:
        await lease.release()
    assert caught.value.reason is LossReason.EXPIRED


async def test_a_server_that_lost_its_data_is_noticed_at_the_next_renewal(world: World) -> None:
    ttl = 2.4
    lease = await world.lock(ttl=ttl).acquire()
    clock = Stopwatch()
    world.server.flushall()
    assert await lease.wait_lost(10)
    assert clock.seconds < ttl / 3 + 1.2  # by its own clock alone it would know after the ttl
    assert lease.reason is LossReason.EXPIRED
    async with world.lock() as other:
        assert other.fence > lease.fence


@pytest.mark.locks_only("another owner with a permit has not taken ours")
async def test_a_lock_that_another_took_meanwhile_is_lost_as_taken(world: World) -> None:
    lease = await world.lock(ttl=1.5).acquire()
    world.server.flushall()
    async with world.lock(of=world.locks(), wait=0) as other:
        assert await lease.wait_lost(10)
        assert lease.reason is LossReason.TAKEN
        with pytest.raises(NotOwner):
            await lease.release()
        other.check()


async def test_the_reason_is_final(world: World) -> None:
    lease = await world.lock(ttl=1.2).acquire()
    world.server.flushall()
    await lease.wait_lost(10)
    async with world.lock(of=world.locks(), wait=0):
        await world.sleep(0.3)
        with pytest.raises(NotOwner):
            await lease.release()
    assert lease.reason is LossReason.EXPIRED


async def test_a_block_whose_lease_is_lost_ends_with_an_error(world: World) -> None:
    lock = world.lock(ttl=1.2)
    with pytest.raises(LeaseLost) as caught:  # noqa: PT012
        async with lock as lease:
            world.server.flushall()
            await world.until(lambda: lease.lost)
    assert caught.value.reason is LossReason.EXPIRED
    async with lock:
        pass


async def test_a_hold_whose_lease_is_lost_runs_on_and_ends_with_an_error(world: World) -> None:
    ran_on = False
    with pytest.raises(LeaseLost):  # noqa: PT012
        async with world.lock(ttl=0.1, renew=False).hold() as lease:
            await lease.wait_lost(10)
            await world.sleep(0.05)
            ran_on = True
    assert ran_on


@pytest.mark.parametrize("by", ["with", "hold"])
async def test_the_bodys_own_exception_goes_through_with_the_loss_as_a_note(world: World, by: str) -> None:
    lock = world.lock(ttl=0.1, renew=False)
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012
        async with lock if by == "with" else lock.hold() as lease:
            while not lease.lost:
                time.sleep(0.01)  # without a turn of the loop, which would cancel the body
            raise ZeroDivisionError
    (note,) = caught.value.__notes__
    assert "'thing'" in note
    assert "lost" in note


async def test_a_loss_that_only_the_server_knows_of_comes_out_of_the_block(world: World) -> None:
    with pytest.raises(NotOwner, match="cannot release"):
        async with world.lock(ttl=20):
            world.server.flushall()
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012
        async with world.lock(ttl=20):
            world.server.flushall()
            raise ZeroDivisionError
    assert "not ours any more" in caught.value.__notes__[0]


@pytest.mark.played(colour=["asyncio"])
async def test_the_body_of_an_async_with_is_cancelled_when_the_lease_is_lost(world: World) -> None:
    cancelled = False
    clock = Stopwatch()
    with pytest.raises(LeaseLost) as caught:  # noqa: PT012
        async with world.lock(ttl=1.5):
            world.server.flushall()
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                cancelled = True
                raise
    assert cancelled
    assert clock.seconds < 5
    assert caught.value.reason is LossReason.EXPIRED
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)  # nothing comes after


@pytest.mark.played(colour=["sync"])
async def test_a_blocking_body_is_left_alone_and_told_at_its_end(world: World) -> None:
    ran_on = False
    with pytest.raises(LeaseLost):  # noqa: PT012
        async with world.lock(ttl=0.1, renew=False) as lease:
            await lease.wait_lost(10)
            ran_on = True
    assert ran_on
