"""When the server cannot be reached: raise, lock in this process, or continue without a lock; each is reported."""

import logging

import pytest

from holdtight import AsyncLease, AsyncLocks, LeaseLost, LockTimeout, LossReason, NotSupported, ScriptError, Unavailable
from holdtight.events import Degraded
from tests.scenarios.world import World
from tests.support.memory import MEMORY

# Servers that do not answer are all alike; where one answers in these scenarios, any flavour will do.
pytestmark = pytest.mark.played(server=[MEMORY], kind=["exclusive"])

NOBODY = "redis://127.0.0.1:1/0"


def cut_off(world: World, how: str, **options: object) -> AsyncLocks:
    return world.locks(NOBODY, on_unavailable=how, connect_timeout=0.05, **options)


async def test_raise_is_the_default(world: World) -> None:
    with pytest.raises(Unavailable):
        await world.locks(NOBODY, connect_timeout=0.05).lock("a").acquire()


async def test_a_local_lock_excludes_within_this_process(world: World) -> None:
    first, second = cut_off(world, "local"), cut_off(world, "local")
    async with first.lock("a", ttl=20) as lease:
        assert lease.degraded
        assert lease.name == "a"
        assert lease.nodes == ()
        lease.check()
        assert await world.apart(second.lock("a").try_acquire()) is None
        with pytest.raises(LockTimeout):
            await world.apart(second.lock("a").acquire(wait=0.2))
        other = await second.lock("b").acquire()
        await other.release()
        waiter = world.start(second.lock("a").acquire(wait=10))
    served = await waiter.result()
    assert served.degraded
    await served.release()


async def test_an_open_lock_excludes_nobody(world: World) -> None:
    locks = cut_off(world, "open")
    async with locks.lock("a", ttl=20) as lease:
        assert lease.degraded
        other = await world.apart(locks.lock("a").acquire(wait=0))
        assert other.degraded
        other.check()
        await other.renew(5)
        await other.release()
        await other.release()
        lease.check()
        assert not lease.lost
        assert lease.remaining() > 0


@pytest.mark.parametrize("how", ["local", "open"])
async def test_a_degraded_lease_has_no_fence(world: World, how: str) -> None:
    async with cut_off(world, how).lock("a", ttl=20) as lease:
        for read in (lambda: lease.fence, lambda: lease.fences):
            with pytest.raises(NotSupported, match="degraded"):
                read()
        with pytest.raises(NotSupported):
            await lease.detach()
        lease.check()


@pytest.mark.parametrize("how", ["local", "open"])
async def test_it_is_told_each_time(world: World, how: str, caplog: pytest.LogCaptureFixture) -> None:
    locks = cut_off(world, how)
    heard = world.listen(locks)
    with caplog.at_level(logging.WARNING, "holdtight"):
        for _ in range(2):
            async with locks.lock("a", ttl=20):
                pass
    told = [event for event in heard if isinstance(event, Degraded)]
    assert [(event.name, event.how) for event in told] == [("a", how)] * 2
    assert "127.0.0.1:1" in told[0].cause
    assert [record.levelname for record in caplog.records if "degraded a: " in record.message] == ["WARNING"] * 2


async def test_several_that_cannot_all_be_had_are_given_back(world: World) -> None:
    locks = cut_off(world, "local")
    lease = await locks.lock("b", ttl=20).acquire()
    with pytest.raises(LockTimeout, match="'b' not acquired"):
        await locks.multi("a", "b", ttl=20).acquire(wait=0)
    assert await world.apart(_may(locks.lock("a", ttl=20).try_acquire()))
    await lease.release()
    async with locks.multi("a", "b", ttl=20):
        pass


async def test_all_kinds_are_stood_in_for(world: World) -> None:
    locks = cut_off(world, "local")
    gate = locks.semaphore("gate", permits=2, ttl=20)
    book = locks.rwlock("book", ttl=20)
    async with gate, gate, book.read() as reader:
        assert reader.degraded
        assert await world.apart(gate.try_acquire()) is None
        assert await world.apart(book.write().try_acquire()) is None
        assert await world.apart(_may(book.read().try_acquire()))
    async with locks.multi("a", book.write(), ttl=20) as several:
        assert several.degraded
        assert await world.apart(locks.lock("a").try_acquire()) is None
        with pytest.raises(NotSupported):
            _ = several.fences
    async with book.write() as writer:
        reader = await writer.downgrade()
        assert reader.degraded
        assert await world.apart(_may(book.read().try_acquire()))
    assert await world.apart(_may(book.write().try_acquire()))


async def _may(attempt: object) -> bool:
    lease: AsyncLease | None = await attempt  # type: ignore[misc]
    if lease is not None:
        await lease.release()
    return lease is not None


@pytest.mark.parametrize("how", ["local", "open"])
async def test_a_reentrant_lock_is_entered_again(world: World, how: str) -> None:
    locks = cut_off(world, how)
    lock = locks.lock("a", ttl=20, reentrant=True)
    async with lock as outer:
        async with lock as inner:
            assert inner.degraded
            assert inner.owner == outer.owner
        outer.check()
        if how == "local":
            assert await world.apart(lock.try_acquire()) is None
    assert await world.apart(_may(lock.try_acquire()))


@pytest.mark.parametrize("how", ["local", "open"])
async def test_max_hold_ends_a_degraded_lease_too(world: World, how: str) -> None:
    lease = await cut_off(world, how).lock("a", ttl=20, max_hold=0.2).acquire()
    assert await lease.wait_lost(10)
    assert lease.reason is LossReason.MAX_HOLD
    with pytest.raises(LeaseLost):
        await lease.release()


async def test_what_the_server_says_about_a_lock_is_no_reason_to_go_on_without(world: World) -> None:
    """This server answers: held, or in use as something else."""
    locks = world.locks(on_unavailable="open")
    held = await locks.lock("a", ttl=20).acquire()
    assert not held.degraded
    assert await locks.lock("a").try_acquire() is None
    with pytest.raises(LockTimeout):
        await locks.lock("a").acquire(wait=0.6)
    with pytest.raises(ScriptError):
        await locks.semaphore("a", permits=1).try_acquire()
    await held.release()


async def test_an_unknown_way_is_refused(world: World) -> None:
    with pytest.raises(ValueError, match="on_unavailable"):
        world.locks(NOBODY, on_unavailable="maybe")
