"""The fence is strictly larger than that of every earlier grant of the name, however that ended."""

import time

import pytest

from tests.scenarios.world import World


async def test_fences_rise_from_grant_to_grant(world: World) -> None:
    clients = [world.locks(), world.locks()]
    fences: list[int] = []
    for at in range(50):
        async with world.lock(of=clients[at % 2]) as lease:
            assert lease.fences == {"thing": lease.fence}
            fences.append(lease.fence)
    assert fences == sorted(set(fences))


async def test_the_fence_rises_over_an_expiry(world: World) -> None:
    lock = world.lock(ttl=0.05, renew=False)
    first = await lock.acquire()
    await first.wait_lost(10)
    second = await lock.acquire()
    assert second.fence > first.fence
    await second.release()


async def test_the_fence_rises_over_hand_overs(world: World) -> None:
    lock = world.lock()
    fences: list[int] = []

    async def turn() -> None:
        async with lock as lease:
            fences.append(lease.fence)

    lease = await lock.acquire()
    actors = await world.line_up(lock, turn(), turn(), turn())
    await lease.release()
    for actor in actors:
        await actor.result()
    assert [lease.fence, *fences] == sorted({lease.fence, *fences})


async def test_the_fence_rises_over_the_loss_of_all_data(world: World) -> None:
    lock = world.lock()
    for _ in range(3):
        async with lock as lease:
            before = lease.fence
        world.server.flushall()
        async with lock as lease:
            assert lease.fence > before


@pytest.mark.real_server("the clock of the memory store is never set")
async def test_a_fence_that_is_ahead_of_the_clock_is_not_fallen_behind(world: World) -> None:
    """As after a clock that was stepped ahead and back: the next is larger all the same."""
    ahead = int((time.time() + 3) * 1e6)
    world.server.command("SET", "ht:{thing}", f"t1-{ahead}", "PX", 13_000)
    fences: list[int] = [ahead]
    for _ in range(3):
        async with world.lock() as lease:
            fences.append(lease.fence)
    lost = await world.lock(ttl=0.05, renew=False).acquire()
    await lost.wait_lost(10)
    async with world.lock() as lease:
        fences += [lost.fence, lease.fence]
    assert fences == sorted(set(fences))
    assert world.overstaying(tombstone_ms=13_500) == {}
    world.server.flushall()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
@pytest.mark.no_cohort("the server knows the last fence of the range")
async def test_renewal_and_re_entry_keep_the_fence(world: World) -> None:
    lock = world.lock(reentrant=True)
    async with lock as lease, lock as again:
        before = lease.fence
        await lease.renew(10)
        assert lease.fence == again.fence == before
        assert (await lock.inspect()).fence == before
