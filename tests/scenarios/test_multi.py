"""Several locks as one: all or nothing."""

import pickle

import pytest

from holdtight import AsyncLease, AsyncMulti, DeadlockDetected, Kind, LeaseLost, LockTimeout, LossReason, NotSupported
from tests.scenarios.colours import bare
from tests.scenarios.world import World

pytestmark = pytest.mark.played(kind=["exclusive"])


async def test_all_are_held_and_all_are_given_back(world: World) -> None:
    client = world.client
    several = client.multi(
        "b", "a", client.rwlock("c", ttl=20).read(), client.semaphore("d", permits=2, ttl=20), ttl=20
    )
    async with several as lease:
        assert lease.kind is Kind.MULTI
        assert list(lease.fences) == ["a", "b", "c", "d"]
        assert all(fence > 10**15 for fence in lease.fences.values())
        for name in ("a", "b"):
            assert await world.apart(client.lock(name).try_acquire()) is None
        assert await world.apart(client.lock("c").try_acquire()) is None
        other = await world.apart(client.rwlock("c").read().acquire())
        await other.release()
        lease.check()
        assert 10 < lease.remaining() <= 20
    for name in "abcd":
        assert not (await client.inspect(name)).locked


async def test_a_fence_of_a_multi_points_to_fences(world: World) -> None:
    async with world.client.multi("a", "b", ttl=20) as lease:
        with pytest.raises(NotSupported, match="fences"):
            _ = lease.fence


async def test_one_that_is_held_keeps_all_others_free(world: World) -> None:
    client = world.client
    held = await client.lock("b", ttl=20).acquire()
    several = client.multi("a", "b", "c", ttl=20)
    assert await several.try_acquire() is None
    with pytest.raises(LockTimeout, match="'b'"):
        await several.acquire(wait=0.6)
    for name in ("a", "c"):
        assert not (await client.inspect(name)).locked
        assert not (await client.inspect(name)).waiters
    await held.release()
    async with several:
        pass


async def test_a_multi_waits_for_its_parts_in_order(world: World) -> None:
    client = world.client
    held = [await client.lock(name, ttl=20).acquire() for name in ("a", "b", "c")]
    waiter = world.start(client.multi("c", "b", "a", ttl=20).acquire())
    for name, lease in zip("abc", held, strict=True):
        await world.in_line(client.lock(name), 1)
        await lease.release()
    await (await waiter.result()).release()


async def test_free_ones_are_taken_with_one_request(world: World) -> None:
    sent = world.tap()
    several = world.client.multi("a", "b", "c", ttl=20)
    await (await several.acquire()).release()
    before = sent()
    lease = await several.acquire()
    assert sent() - before == 1
    await lease.release()


async def test_opposite_orders_never_deadlock(world: World) -> None:
    client = world.client

    async def take(*names: str) -> int:
        for _ in range(30):
            async with client.multi(*names, ttl=20):
                pass
        return 30

    actors = [world.start(take(*names)) for names in (("a", "b", "c"), ("c", "b", "a"), ("b", "c"), ("c", "a"))]
    assert [await actor.result() for actor in actors] == [30] * 4


async def test_the_same_name_twice_is_taken_once(world: World) -> None:
    async with world.client.multi("a", "a", world.client.lock("a", ttl=20), ttl=20) as lease:
        assert list(lease.fences) == ["a"]


async def test_the_same_semaphore_twice_is_two_permits(world: World) -> None:
    semaphore = world.client.semaphore("s", permits=2, ttl=20)
    async with world.client.multi(semaphore, semaphore, "a", ttl=20):
        assert await world.apart(semaphore.try_acquire()) is None
    with pytest.raises(ValueError, match="more than"):
        world.client.multi(semaphore, semaphore, semaphore)


async def test_the_same_name_in_two_modes_is_refused(world: World) -> None:
    client = world.client
    with pytest.raises(ValueError, match="two modes"):
        client.multi("a", client.rwlock("a").read())
    with pytest.raises(ValueError, match="two modes"):
        client.multi(client.semaphore("a", permits=2), "a")


async def test_what_is_no_lock_of_this_client_is_refused(world: World) -> None:
    client = world.client
    with pytest.raises(ValueError, match="at least one"):
        client.multi()
    with pytest.raises(ValueError, match="another client"):
        client.multi("a", world.locks(namespace="other").lock("b"))
    with pytest.raises(TypeError, match=r"\.read\(\) or its \.write\(\)"):
        client.multi("a", client.rwlock("b"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="int"):
        client.multi("a", 7)  # type: ignore[arg-type]


def with_a_weak_part(world: World) -> AsyncMulti:
    """Of the two, `b` is not renewed."""
    return world.client.multi("a", world.client.lock("b", ttl=0.3, renew=False), ttl=20)


async def let_go(world: World, name: str) -> None:
    """The end of a lost lease waits for no answer."""

    async def free() -> bool:
        return not (await world.client.inspect(name)).locked

    await world.until(free)


async def test_loss_of_one_part_is_loss_of_the_whole(world: World) -> None:
    lease = await with_a_weak_part(world).acquire()
    heard: list[AsyncLease] = []
    lease.on_lost(heard.append)
    assert await lease.wait_lost(10)
    assert lease.lost
    assert lease.reason is LossReason.EXPIRED
    assert lease.remaining() == 0
    with pytest.raises(LeaseLost, match="'b'"):
        lease.check()
    await world.until(lambda: heard)
    assert len(heard) == 1
    with pytest.raises(LeaseLost):
        await lease.release()
    await let_go(world, "a")


async def test_a_block_tells_of_the_loss_of_a_part(world: World) -> None:
    async def work() -> None:
        async with with_a_weak_part(world) as lease:
            await lease.wait_lost(10)
            if not world.blocking:
                await world.sleep(10)  # cancelled

    with pytest.raises(LeaseLost, match="'b'"):
        await work()
    await let_go(world, "a")


async def test_a_part_that_is_held_here_already_is_refused_at_once(world: World) -> None:
    async with world.client.lock("b", ttl=20):
        with pytest.raises(DeadlockDetected, match="'b'"):
            await world.client.multi("a", "b", ttl=20).acquire()
        assert not (await world.client.inspect("a")).locked


async def test_a_reentrant_multi_shares_what_is_held(world: World) -> None:
    lock = world.client.lock("b", ttl=20, reentrant=True)
    async with lock as outer:
        async with world.client.multi("a", "b", ttl=20, reentrant=True) as lease:
            assert lease.fences["b"] == outer.fence
        outer.check()
        assert (await world.client.inspect("b")).locked
        assert not (await world.client.inspect("a")).locked


async def test_a_multi_is_renewed_and_held_across_threads_and_tasks(world: World) -> None:
    several = world.client.multi("a", "b", ttl=1.2)
    hold = several.hold(wait=1)
    lease = await hold.__aenter__()
    for _ in range(2):
        await world.renewed(lease)
    await lease.renew(5)
    assert lease.ttl == 5
    await world.apart(hold.__aexit__(None, None, None))
    assert not await several.locked()


async def test_a_multi_cannot_be_detached_or_downgraded(world: World) -> None:
    async with world.client.multi("a", "b", ttl=20) as lease:
        for attempt in (lease.detach(), lease.downgrade()):
            with pytest.raises(NotSupported):
                await attempt


@pytest.mark.real_server("a client of the memory store refuses to travel")
async def test_a_multi_as_a_decorator_and_from_a_pickle(world: World) -> None:
    several = world.client.multi("a", "b", ttl=20)
    copy = world.colour.dressed(pickle.loads(pickle.dumps(bare(several))))

    async def look() -> list[bool]:
        return [(await world.client.inspect(name)).locked for name in ("a", "b")]

    assert await copy(look)() == [True, True]
    info = await several.inspect()
    assert (info.name, info.kind, info.locked) == ("a + b", Kind.MULTI, False)
