"""All ways to take a lock and to give it back."""

import pytest

from holdtight import LockTimeout, NotOwner
from tests.scenarios.colours import bare
from tests.scenarios.world import World


async def test_a_lock_is_acquired_and_released(world: World) -> None:
    lock = world.lock("order:1", ttl=5)
    lease = await lock.acquire()
    assert (lease.name, lease.kind, lease.ttl) == ("order:1", lock.options.kind, 5)
    assert not lease.lost
    assert lease.reason is None
    lease.check()
    assert await lock.locked()
    await lease.release()
    assert not await lock.locked()


async def test_a_with_block_holds_the_lock_and_gives_it_back(world: World) -> None:
    lock = world.lock()
    async with lock as lease:
        assert (await lock.inspect()).holders[0].owner == lease.owner
    assert not await lock.locked()
    async with lock:  # the same object again
        assert await lock.locked()
    assert not await lock.locked()


async def test_hold_gives_a_block_that_can_wait_differently(world: World) -> None:
    lock = world.lock()
    async with lock.hold() as lease:
        assert lease.fence > 0
        with pytest.raises(LockTimeout):
            async with lock.hold(wait=0):
                raise AssertionError("entered a lock that is held")
    assert not await lock.locked()


async def test_a_hold_is_for_one_use(world: World) -> None:
    hold = world.lock().hold()
    async with hold:
        pass
    with pytest.raises(RuntimeError, match="once"):
        async with hold:
            raise AssertionError("entered twice")


async def test_a_decorated_function_runs_under_the_lock(world: World) -> None:
    lock = world.lock()

    async def double(number: int, *, plus: int = 0) -> int:
        """Twice as much."""
        assert await lock.locked()
        return 2 * number + plus

    decorated = lock(double)
    assert decorated.__name__ == "double"
    assert decorated.__doc__ == "Twice as much."
    assert await decorated(4, plus=1) == 9
    assert await decorated(5) == 10
    assert not await lock.locked()


async def test_a_function_of_the_other_colour_cannot_be_decorated(world: World) -> None:
    def plain() -> None: ...
    async def coloured() -> None: ...

    with pytest.raises(TypeError, match="AsyncLocks" if world.blocking else "Locks"):
        bare(world.lock())(coloured if world.blocking else plain)


async def test_try_acquire_never_waits(world: World) -> None:
    lock = world.lock(wait=None)
    lease = await lock.try_acquire()
    assert lease is not None
    assert await lock.try_acquire() is None
    await lease.release()
    again = await lock.try_acquire()
    assert again is not None
    await again.release()


async def test_try_acquire_of_a_lock_held_in_the_own_block_is_none_and_no_error(world: World) -> None:
    lock = world.lock()
    async with lock:
        assert await lock.try_acquire() is None


async def test_an_exception_in_the_body_releases_and_goes_through(world: World) -> None:
    lock = world.lock()
    with pytest.raises(ZeroDivisionError) as caught:
        async with lock:
            raise ZeroDivisionError
    assert not hasattr(caught.value, "__notes__")
    assert not await lock.locked()


async def test_release_can_be_called_again(world: World) -> None:
    lock = world.lock()
    lease = await lock.acquire()
    await lease.release()
    await lease.release()
    async with lock:
        await lease.release()
        assert await lock.locked()


async def test_a_released_lease_is_not_lost_but_cannot_be_relied_on(world: World) -> None:
    lease = await world.lock().acquire()
    await lease.release()
    assert not lease.lost
    assert lease.remaining() == 0
    with pytest.raises(NotOwner, match="released"):
        lease.check()
    with pytest.raises(NotOwner, match="released"):
        await lease.renew()


async def test_releasing_inside_the_block_is_fine(world: World) -> None:
    lock = world.lock()
    async with lock as lease:
        await lease.release()
        assert not await lock.locked()


async def test_locks_of_different_names_do_not_meet(world: World) -> None:
    async with world.lock("a"), world.lock("b", wait=0), world.lock("A", wait=0):
        assert await world.lock("a").locked()
        assert not await world.lock("c").locked()


async def test_two_namespaces_do_not_meet(world: World) -> None:
    here, there = world.locks(namespace="here"), world.locks(namespace="there")
    async with world.lock(of=here), world.lock(of=there, wait=0):
        pass


BRACKETS = ("{", "}", "{}", "a{b}c", "}{", "%7B", "%", "100%")
NAMES = (*BRACKETS, "a:b", "a:q", "a:w", "a b", "tür/ß", "鍵", "🔒", "x" * 512)


async def test_strange_names_are_names_of_their_own(world: World) -> None:
    leases = [await world.lock(name, wait=0).acquire() for name in NAMES]
    for name, lease in zip(NAMES, leases, strict=True):
        info = await world.client.inspect(name)
        assert (info.name, info.holders[0].owner) == (name, lease.owner)
        with pytest.raises(LockTimeout):
            await world.lock(name).acquire(wait=0)
    assert sorted(lease.name for lease in leases) == sorted(NAMES)
    for lease in leases:
        await lease.release()


async def test_what_goes_with_a_strange_name_does_not_reach_into_another(world: World) -> None:
    """The queue of "a" is no lock "a}:q", whatever the brackets."""
    lock = world.lock("a")
    lease = await lock.acquire()
    waiter = world.start(lock.acquire())
    await world.in_line(lock, 1)
    for name in ("a:q", "a:w", "a}:q", "a}:w", "{a}:q", "{a}"):
        async with world.lock(name, wait=0):
            pass
    await lease.release()
    await (await waiter.result()).release()
