"""Semaphores: never more permits than the limit, first come, first served."""

import pytest

from holdtight import DeadlockDetected, Kind, LockTimeout, NotSupported, ScriptError
from tests.scenarios.world import World

pytestmark = pytest.mark.played(kind=["exclusive"])


async def test_so_many_and_no_more(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=3, ttl=20)
    leases = [await semaphore.acquire() for _ in range(3)]
    assert {lease.kind for lease in leases} == {Kind.PERMITS}
    assert [lease.fence for lease in leases] == sorted({lease.fence for lease in leases})
    assert await semaphore.try_acquire() is None
    with pytest.raises(LockTimeout):
        await semaphore.acquire(wait=0.6)
    info = await semaphore.inspect()
    assert info.kind is Kind.PERMITS
    assert [holder.owner for holder in info.holders] == [lease.owner for lease in leases]
    assert all(holder.pid and holder.host and holder.expires_in for holder in info.holders)
    await leases.pop().release()
    leases.append(await semaphore.acquire(wait=1))
    for lease in leases:
        await lease.release()
    assert not await semaphore.locked()


async def test_several_permits_at_once(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=5, ttl=20)
    big = await semaphore.acquire(3)
    assert await semaphore.try_acquire(3) is None
    small = await semaphore.try_acquire(2)
    assert small is not None
    assert await semaphore.try_acquire() is None
    assert [holder.n for holder in (await semaphore.inspect()).holders] == [3, 2]
    await big.release()
    async with semaphore.hold(3):
        assert await semaphore.try_acquire() is None
    await small.release()


async def test_a_large_request_is_not_starved_by_small_ones(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=3, ttl=20)
    leases = [await semaphore.acquire() for _ in range(3)]
    (large,) = await world.line_up(semaphore, semaphore.acquire(3))
    small = world.start(semaphore.acquire())
    await world.in_line(semaphore, 2)
    await leases[0].release()
    await leases[1].release()
    assert await semaphore.try_acquire() is None  # two are free, and kept for the first waiter
    assert not small.done
    await leases[2].release()
    lease = await large.result()
    assert not small.done
    await lease.release()
    await (await small.result()).release()


async def test_as_many_are_let_in_as_fit(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=4, ttl=20)
    all_of_them = await semaphore.acquire(4)
    waiting = await world.line_up(semaphore, *(semaphore.acquire(n) for n in (1, 2, 1, 1)))
    await all_of_them.release()
    first = [await waiter.result() for waiter in waiting[:3]]
    assert not waiting[3].done
    await first[1].release()
    await (await waiting[3].result()).release()
    await first[0].release()
    await first[2].release()


async def test_a_limit_change_counts_for_new_grants(world: World) -> None:
    many = world.client.semaphore("gate", permits=3, ttl=20)
    few = world.locks().semaphore("gate", permits=1, ttl=20)
    leases = [await many.acquire() for _ in range(3)]
    assert await few.try_acquire() is None
    for lease in leases[:2]:
        await lease.release()
    assert await few.try_acquire() is None  # one is still out, and that is all that the new limit allows
    again = await many.try_acquire()
    assert again is not None
    await again.release()
    await leases[2].release()
    async with few:
        assert await world.apart(few.try_acquire()) is None


async def test_each_in_line_waits_with_the_limit_it_brought(world: World) -> None:
    many = world.client.semaphore("gate", permits=3, ttl=20)
    few = world.client.semaphore("gate", permits=2, ttl=20)
    leases = [await many.acquire() for _ in range(3)]
    lowered, old = await world.line_up(many, few.acquire(), many.acquire())
    await leases.pop().release()
    assert await many.try_acquire() is None  # one is free by the old limit, but none by that of the first waiter
    assert not lowered.done
    assert not old.done
    await leases.pop().release()
    leases += [await lowered.result(), await old.result()]
    raised = await world.client.semaphore("gate", permits=4, ttl=20).try_acquire()
    assert raised is not None  # a higher limit counts at once when no waiter is there
    for lease in (raised, *leases):
        await lease.release()


async def test_the_permits_of_a_dead_holder_come_back(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=2, ttl=20)
    dead = await world.client.semaphore("gate", permits=2, ttl=0.3, renew=False).acquire(2)
    assert await semaphore.try_acquire() is None
    async with semaphore.hold(2, wait=10):
        assert dead.lost


async def test_permits_are_renewed(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=1, ttl=1.2)
    async with semaphore as lease:
        await world.renewed(lease)
        await world.renewed(lease)
        assert await world.apart(semaphore.try_acquire()) is None


async def test_a_task_may_hold_several_in_blocks_but_not_wait_for_itself(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=2, ttl=20)
    async with semaphore, semaphore:
        with pytest.raises(DeadlockDetected):
            await semaphore.acquire()
        assert await semaphore.try_acquire() is None
    async with semaphore:
        with pytest.raises(DeadlockDetected):
            await semaphore.acquire(2)
    assert not await semaphore.locked()


async def test_a_name_is_a_lock_or_a_semaphore_but_not_both(world: World) -> None:
    client = world.client
    async with client.lock("gate", ttl=20):
        with pytest.raises(ScriptError, match=r"as a semaphore.*in use as an exclusive lock"):
            await client.semaphore("gate", permits=2).try_acquire()
    async with client.rwlock("gate", ttl=20).read():
        with pytest.raises(ScriptError, match=r"as a semaphore.*in use as a read-write lock"):
            await world.apart(client.semaphore("gate", permits=2).acquire())
    async with client.semaphore("gate", permits=2, ttl=20):
        with pytest.raises(ScriptError, match=r"as an exclusive lock.*in use as a semaphore"):
            await world.apart(client.lock("gate").acquire())
        with pytest.raises(ScriptError, match=r"as a read-write lock.*in use as a semaphore"):
            await world.apart(client.rwlock("gate").read().acquire())
    async with client.lock("gate", ttl=20):
        pass  # free again, for any kind


async def test_a_request_of_another_kind_that_is_refused_leaves_the_line_as_it_was(world: World) -> None:
    client = world.client
    book, gate = client.rwlock("book", ttl=20), client.semaphore("gate", permits=1, ttl=20)
    writer, permit = await book.write().acquire(), await gate.acquire()
    (reader,) = await world.line_up(book.read(), book.read().acquire())
    (next_one,) = await world.line_up(gate, gate.acquire())
    with pytest.raises(ScriptError, match="in use as an exclusive lock"):
        await client.semaphore("book", permits=1).acquire(wait=5)
    for other in (client.lock("gate"), client.rwlock("gate").read()):
        with pytest.raises(ScriptError, match="in use as a semaphore"):
            await other.acquire(wait=5)
    assert [(await each.inspect()).waiting for each in (book, gate)] == [1, 1]
    await writer.release()
    await permit.release()
    await (await reader.result()).release()
    await (await next_one.result()).release()


@pytest.mark.parametrize(
    ("permits", "error"),
    [(0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError), ("3", TypeError), (10**9, ValueError)],
)
async def test_a_wrong_number_of_permits_is_refused(world: World, permits: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="permits"):
        world.client.semaphore("gate", permits=permits)  # type: ignore[arg-type]


async def test_a_wrong_number_of_permits_asked_for_is_refused(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=2)
    with pytest.raises(ValueError, match="n=3 is more than"):
        await semaphore.acquire(3)
    with pytest.raises(ValueError, match="n=0"):
        await semaphore.try_acquire(0)
    with pytest.raises(TypeError, match="n must be a whole number"):
        await semaphore.acquire(True)
    with pytest.raises(NotSupported):
        world.client.semaphore("gate", permits=2, reentrant=True)  # type: ignore[call-arg]


async def test_permits_are_not_detached(world: World) -> None:
    async with world.client.semaphore("gate", permits=2, ttl=20) as lease:
        with pytest.raises(NotSupported):
            await lease.detach()
        lease.check()


async def test_renew_sets_the_time_left_of_its_own_permits_alone(world: World) -> None:
    semaphore = world.client.semaphore("gate", permits=2, ttl=20)
    lease, other = await semaphore.acquire(), await semaphore.acquire()
    await lease.renew(40)
    await lease.renew(5)
    left = {holder.owner: holder.expires_in for holder in (await semaphore.inspect()).holders}
    assert 3 < (left[lease.owner] or 0) <= 5
    assert 15 < (left[other.owner] or 0) <= 20
    await lease.release()
    await other.release()
