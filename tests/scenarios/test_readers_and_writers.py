"""Read-write locks: readers share, writers are alone, and no waiter overtakes."""

from functools import partial

import pytest

from holdtight import AsyncLease, AsyncLock, DeadlockDetected, Kind, LeaseLost, LockTimeout, NotSupported
from holdtight.events import Downgraded, PreviousExpired
from tests.scenarios.world import World

pytestmark = pytest.mark.played(kind=["exclusive"])


async def test_readers_share(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    first = await lock.read().acquire()
    second = await world.locks().rwlock("book").read().acquire()
    assert first.kind is second.kind is Kind.SHARED
    assert second.fence > first.fence
    info = await lock.inspect()
    assert info.kind is Kind.SHARED
    assert [holder.owner for holder in info.holders] == [first.owner, second.owner]
    assert [holder.fence for holder in info.holders] == [first.fence, second.fence]
    await first.release()
    assert await lock.locked()
    await second.release()
    assert not await lock.locked()


async def test_a_writer_is_alone(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    writer = await lock.write().acquire()
    assert writer.kind is Kind.EXCLUSIVE
    assert await lock.read().try_acquire() is None
    assert await lock.write().try_acquire() is None
    await writer.release()
    reader = await lock.read().acquire()
    assert await lock.write().try_acquire() is None
    with pytest.raises(LockTimeout) as caught:
        await lock.write().acquire(wait=0.6)
    assert caught.value.holder is not None
    assert caught.value.holder.owner == reader.owner
    assert caught.value.holder.pid is not None
    await reader.release()


async def test_the_write_lock_and_the_plain_lock_are_one(world: World) -> None:
    writer = await world.client.rwlock("book", ttl=20).write().acquire()
    assert await world.client.lock("book").try_acquire() is None
    await writer.release()
    async with world.client.lock("book", ttl=20):
        assert await world.apart(world.client.rwlock("book").read().try_acquire()) is None


async def test_a_waiting_writer_stops_later_readers(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    order: list[str] = []

    async def take(what: AsyncLock, name: str) -> AsyncLease:
        lease = await what.acquire()
        order.append(name)
        return lease

    reader = await lock.read().acquire()
    (writer,) = await world.line_up(lock.read(), take(lock.write(), "writer"))
    late = world.start(take(lock.read(), "late reader"))
    await world.in_line(lock.read(), 2)
    assert await lock.read().try_acquire() is None
    await reader.release()
    lease = await writer.result()
    assert not late.done
    await lease.release()
    await (await late.result()).release()
    assert order == ["writer", "late reader"]


async def test_a_run_of_readers_is_let_in_at_once(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    writer = await lock.write().acquire()
    readers = await world.line_up(lock.read(), *(lock.read().acquire() for _ in range(5)))
    last = world.start(lock.write().acquire())
    await world.in_line(lock.read(), 6)
    behind = world.start(lock.read().acquire())
    await world.in_line(lock.read(), 7)
    await writer.release()
    leases = [await reader.result() for reader in readers]  # all five, though none of them has released
    assert not last.done
    assert not behind.done
    for lease in leases:
        await lease.release()
    await (await last.result()).release()
    await (await behind.result()).release()


def all_went_on(rounds: list[int], before: list[int]) -> bool:
    return all(now > then for now, then in zip(rounds, before, strict=True))


async def test_readers_in_a_stream_do_not_starve_a_writer(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    stop: list[bool] = []
    rounds = [0, 0, 0]

    async def read_on(number: int) -> None:
        while not stop:
            async with lock.read():
                rounds[number] += 1
                await world.sleep(0.001)

    streams = [world.start(read_on(number)) for number in range(3)]
    for _ in range(5):
        await world.until(partial(all_went_on, rounds, list(rounds)))
        async with lock.write().hold(wait=10):
            pass
    stop.append(True)
    for stream in streams:
        await stream.result()


async def test_an_expired_reader_frees_its_own_place_alone(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    heard = world.listen()
    gone = await lock.read(ttl=0.3, renew=False).acquire()
    staying = await lock.read().acquire()
    (writer,) = await world.line_up(lock.read(), lock.write().acquire())
    assert await gone.wait_lost(10)
    await world.until(lambda: _readers(lock), what="the dead reader's place to be free")
    assert not writer.done
    staying.check()
    await staying.release()
    await (await writer.result()).release()
    assert not [event for event in heard if isinstance(event, PreviousExpired) and event.previous == staying.owner]


async def _readers(lock: object) -> bool:
    return len((await lock.inspect()).holders) == 1  # type: ignore[attr-defined]


async def test_a_reader_is_renewed(world: World) -> None:
    lease = await world.client.rwlock("book", ttl=1.2).read().acquire()
    await world.renewed(lease)
    await world.renewed(lease)
    await lease.renew(5)
    assert lease.ttl == 5
    assert lease.remaining() > 4
    await lease.release()


async def test_a_write_lease_becomes_a_read_lease_with_no_gap(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    heard = world.listen()
    writer = await lock.write().acquire()
    waiting = await world.line_up(lock.read(), lock.read().acquire())
    last = world.start(lock.write().acquire())
    await world.in_line(lock.read(), 2)
    reader = await writer.downgrade()
    assert reader.kind is Kind.SHARED
    assert reader.fence > writer.fence
    other = await waiting[0].result()  # a waiting reader comes in
    assert not last.done
    writer_over = writer.remaining()
    assert writer_over == 0
    await writer.release()  # ended already: nothing to give back
    reader.check()
    await other.release()
    await reader.release()
    await (await last.result()).release()
    assert [event.fence for event in heard if isinstance(event, Downgraded)] == [reader.fence]


async def test_a_writer_at_the_head_of_the_line_is_not_overtaken_by_a_downgrade(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    first = await lock.write().acquire()
    second = world.start(lock.write().acquire())
    await world.in_line(lock.read(), 1)
    behind = world.start(lock.read().acquire())
    await world.in_line(lock.read(), 2)
    reader = await first.downgrade()
    assert await lock.read().try_acquire() is None
    assert [holder.owner for holder in (await lock.inspect()).holders] == [reader.owner]
    assert not second.done
    assert not behind.done
    await reader.release()
    writer = await second.result()
    assert writer.fence > reader.fence
    assert not behind.done
    await writer.release()
    await (await behind.result()).release()


async def test_a_block_gives_back_what_it_was_downgraded_to(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    async with lock.write() as writer:
        reader = await writer.downgrade()
        assert await world.apart(_can_read(lock))
        reader.check()
    assert not await lock.locked()
    await reader.release()  # a second release does no harm


async def _can_read(lock: object) -> bool:
    lease = await lock.read().try_acquire()  # type: ignore[attr-defined]
    if lease is not None:
        await lease.release()
    return lease is not None


async def test_a_lost_write_lease_cannot_be_downgraded(world: World) -> None:
    writer = await world.client.rwlock("book").write(ttl=0.05, renew=False).acquire()
    assert await writer.wait_lost(10)
    with pytest.raises(LeaseLost):
        await writer.downgrade()


async def test_a_reader_has_nothing_to_downgrade(world: World) -> None:
    async with world.client.rwlock("book", ttl=20).read() as reader:
        with pytest.raises(NotSupported, match="held for writing"):
            await reader.downgrade()


async def test_an_upgrade_is_refused_with_the_reason(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    async with lock.read():
        for attempt in (lock.write().acquire(), lock.write().try_acquire(), lock.write(reentrant=True).acquire()):
            with pytest.raises(NotSupported, match="wait for each other for ever") as caught:
                await attempt
            assert caught.value.name == "book"
    async with lock.write():
        pass


async def test_reading_again_without_reentrant_is_refused_at_once(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)
    for outer in (lock.read(), lock.write()):
        async with outer:
            with pytest.raises(DeadlockDetected):
                await lock.read().acquire()


async def test_a_reentrant_writer_may_read(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20, reentrant=True)
    async with lock.write() as writer:
        async with lock.read() as reader:
            assert reader.fence == writer.fence
            async with lock.read():
                pass
        writer.check()
        assert await world.apart(lock.read().try_acquire()) is None
    assert not await lock.locked()


async def test_a_reentrant_reader_may_read_while_a_writer_waits(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20, reentrant=True)
    async with lock.read() as outer:
        (writer,) = await world.line_up(lock.read(), lock.write().acquire())
        async with lock.read() as inner:
            assert inner.fence == outer.fence
    await (await writer.result()).release()


async def test_read_leases_are_not_detached(world: World) -> None:
    async with world.client.rwlock("book", ttl=20).read() as reader:
        with pytest.raises(NotSupported):
            await reader.detach()
        reader.check()


async def test_a_read_write_lock_as_a_decorator(world: World) -> None:
    lock = world.client.rwlock("book", ttl=20)

    @lock.read()
    async def reading() -> bool:
        return await world.apart(_can_read(lock))

    assert await reading()
    assert not await lock.locked()
