"""Identity: re-entry, and a caller that waits for itself. What a thread or task starts is another caller."""

import re

import pytest

from holdtight import AsyncLease, DeadlockDetected, LeaseLost, LockTimeout, LossReason
from tests.scenarios.world import Stopwatch, World


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_the_holder_enters_again_on_the_same_grant(world: World) -> None:
    sent = world.tap()
    lock = world.lock(reentrant=True)
    first = await lock.acquire()
    before = sent()
    second = await lock.acquire()
    third = await lock.try_acquire()
    assert sent() == before  # no request is sent
    assert third is not None
    assert first.fence == second.fence == third.fence
    assert first.owner == second.owner == third.owner
    for lease in (second, first):
        await lease.release()
        assert await lock.locked()
    third.check()
    await third.release()
    assert not await lock.locked()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_each_handle_counts_once(world: World) -> None:
    lock = world.lock(reentrant=True)
    first, second = await lock.acquire(), await lock.acquire()
    await second.release()
    await second.release()
    assert await lock.locked()
    await first.release()
    assert not await lock.locked()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_nested_blocks_end_with_the_outermost(world: World) -> None:
    lock = world.lock(reentrant=True)
    async with lock as outer:
        async with lock as middle:
            async with lock.hold() as inner:
                assert outer.fence == middle.fence == inner.fence
            assert await lock.locked()
        assert await lock.locked()
        outer.check()
    assert not await lock.locked()
    async with lock as later:
        assert later.fence > outer.fence


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_others_wait_until_the_last_handle_is_gone(world: World) -> None:
    lock = world.lock(reentrant=True)
    async with lock as outer:
        async with lock:
            (waiter,) = await world.line_up(lock, lock.acquire())
        assert not waiter.done
        assert len((await lock.inspect()).waiters) == 1
    lease = await waiter.result()
    assert lease.fence > outer.fence
    await lease.release()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_re_entry_goes_by_client_and_name_and_not_by_lock_object(world: World) -> None:
    async with world.lock(reentrant=True, ttl=20) as outer:
        async with world.lock(reentrant=True, ttl=40, label="other") as inner:
            assert inner.fence == outer.fence
        with pytest.raises(LockTimeout):
            await world.lock(of=world.locks(), reentrant=True).acquire(wait=0)
        async with world.lock("other", reentrant=True) as other:
            assert other.fence != outer.fence


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_what_is_lost_cannot_be_entered_again(world: World) -> None:
    lock = world.lock(reentrant=True, ttl=0.05, renew=False)
    lease = await lock.acquire()
    await lease.wait_lost(10)
    for enter in (lock.acquire, lock.try_acquire, lock.hold().__aenter__):
        with pytest.raises(LeaseLost) as caught:
            await enter()
        assert caught.value.reason is LossReason.EXPIRED
    with pytest.raises(LeaseLost):
        await lease.release()
    await (await lock.acquire(wait=10)).release()  # that grant is over; this is a new one


async def test_a_task_that_waits_for_itself_gets_an_error_at_once(world: World) -> None:
    lock = world.lock("mine")
    async with lock:
        clock = Stopwatch()
        for again in (lock, world.lock("mine", ttl=7)):
            with pytest.raises(DeadlockDetected, match=r"'mine'.*reentrant=True") as caught:
                await again.acquire()
            assert caught.value.cycle == ("mine", "mine")
            assert caught.value.code == "DEADLOCK"
            with pytest.raises(DeadlockDetected, match="thread" if world.blocking else "task"):
                async with again:
                    raise AssertionError("entered twice")
            with pytest.raises(DeadlockDetected):
                async with again.hold(wait=20):
                    raise AssertionError("entered twice")
        assert clock.seconds < 5
        assert await lock.locked()
    assert not await lock.locked()


async def test_waiting_for_a_lease_without_a_block_is_no_deadlock(world: World) -> None:
    """Another thread or task may release it."""
    lock = world.lock()
    lease = await lock.acquire()
    with pytest.raises(LockTimeout):
        await lock.acquire(wait=0.6)

    async def release_soon() -> None:
        await world.in_line(lock, 1)
        await lease.release()

    other = world.start(release_soon())
    again = await lock.acquire(wait=10)
    await other.result()
    await again.release()


async def test_after_the_block_the_same_thread_or_task_may_take_it_again(world: World) -> None:
    lock = world.lock()
    async with lock:
        pass
    lease = await lock.acquire(wait=0)
    await lease.release()
    async with lock as lease:
        await lease.release()
        async with lock.hold(wait=0):  # it is given back: the block that is open does not count
            pass


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
@pytest.mark.parametrize("reentrant", [False, True])
async def test_what_is_started_inside_the_block_waits_like_anyone_else(world: World, reentrant: bool) -> None:
    lock = world.lock(reentrant=reentrant)

    async def child() -> AsyncLease:
        assert await lock.try_acquire() is None
        with pytest.raises(LockTimeout):
            await lock.acquire(wait=0)
        return await lock.acquire()

    async with lock as lease:
        (actor,) = await world.line_up(lock, child())
        assert not actor.done
    inherited = await actor.result()
    assert inherited.fence > lease.fence
    await inherited.release()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_one_at_the_same_time_in_many_actors_stay_apart(world: World) -> None:
    """Each enters its own lock twice, all at the same time, over one client."""

    async def work(number: int) -> int:
        lock = world.lock(f"lock {number}", reentrant=True, wait=0)
        async with lock as outer:
            await world.sleep(0.01)
            async with lock as inner:
                assert inner.fence == outer.fence
                return inner.fence

    actors = [world.start(work(number)) for number in range(8)]
    assert len({await actor.result() for actor in actors}) == 8


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_an_actor_that_ended_leaves_no_identity_behind(world: World) -> None:
    """A thread's or task's number is used again; its locks are not."""
    lock = world.lock(reentrant=True)
    lease = await world.apart(lock.acquire())
    for _ in range(20):
        assert await world.apart(lock.try_acquire()) is None
    await lease.release()


# A lease without a block: another may release it, so waiting for it is no deadlock. But a log line says so.


def very(world: World) -> str:
    return rf"held by this very {'thread' if world.blocking else 'task'}, which took it .* s ago with acquire\(\)"


@pytest.mark.parametrize("first", ["acquire", "try_acquire"])
async def test_a_timeout_says_that_the_caller_itself_is_the_holder(world: World, first: str) -> None:
    lock = world.lock()
    lease = await getattr(lock, first)()
    for wait in (0, 0.05):
        with pytest.raises(LockTimeout, match=very(world) + ".*Release that lease first") as caught:
            await lock.acquire(wait=wait)
        assert caught.value.holder is not None
        with pytest.raises(LockTimeout, match=very(world)):
            async with world.lock(wait=wait):
                raise AssertionError("entered")
    await lease.release()
    async with lock:
        with pytest.raises(LockTimeout) as told:
            await world.apart(lock.acquire(wait=0))
    assert "this very" not in str(told.value)


async def test_others_are_told_who_holds_it(world: World) -> None:
    lock = world.lock()
    lease = await lock.acquire()
    with pytest.raises(LockTimeout) as caught:
        await world.apart(lock.acquire(wait=0))
    assert "this very" not in str(caught.value)
    await lease.release()
    theirs = await world.apart(lock.acquire())
    with pytest.raises(LockTimeout) as caught:
        await lock.acquire(wait=0)
    assert "this very" not in str(caught.value)
    await theirs.release()


async def test_a_lease_of_hold_or_one_handed_over_is_not_held_by_the_caller_itself(world: World) -> None:
    lock = world.lock()
    async with lock.hold():
        with pytest.raises(LockTimeout) as caught:
            await lock.acquire(wait=0)
    assert "this very" not in str(caught.value)


@pytest.mark.takes_time
async def test_a_log_line_warns_a_caller_that_waits_for_itself(world: World, caplog: pytest.LogCaptureFixture) -> None:
    lock = world.lock("mine", of=world.locks(deadlock_after=0.2))
    lease = await lock.acquire()

    async def release_once_it_is_said() -> None:
        await world.until(lambda: [each for each in caplog.records if "waits for itself" in each.message])
        await lease.release()

    other = world.start(release_once_it_is_said())
    again = await lock.acquire(wait=20)
    await other.result()
    await again.release()
    (said,) = [each for each in caplog.records if "waits for itself" in each.message]
    assert (said.name, said.levelname) == ("holdtight", "WARNING")
    assert "lock 'mine'" in said.message
    assert re.search(very(world), said.message)


async def test_a_caller_that_waits_for_another_holder_gets_no_log_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    lock = world.lock("mine", of=world.locks(deadlock_after=0.01))
    lease = await lock.acquire()
    await world.until(lambda: lease.remaining() > 0)
    waiting = world.start(lock.acquire())
    await world.in_line(lock, 1)
    await world.sleep(0.1)
    await lease.release()
    await (await waiting.result()).release()
    assert not [each for each in caplog.records if "waits for itself" in each.message]


async def test_several_that_were_taken_together_are_held_by_the_caller_itself(world: World) -> None:
    locks = world.locks()
    lease = await locks.multi("a", "b").acquire()
    with pytest.raises(LockTimeout, match="'b'.*" + very(world)):
        await locks.lock("b").acquire(wait=0)
    await lease.release()
    lease = await locks.lock("b").acquire()
    with pytest.raises(LockTimeout, match="'b'.*" + very(world)):
        await locks.multi("a", "b").acquire(wait=0)
    await lease.release()


async def test_readers_and_permits_block_their_own_holder_only_if_they_must(world: World) -> None:
    locks = world.locks()
    shared = locks.rwlock("shared")
    reading = await shared.read().acquire()
    with pytest.raises(LockTimeout, match=very(world)):
        await shared.write().acquire(wait=0)
    await reading.release()
    semaphore = locks.semaphore("permits", permits=2)
    lease = await semaphore.acquire()
    theirs = await world.apart(semaphore.acquire())
    with pytest.raises(LockTimeout) as caught:
        await semaphore.acquire(wait=0)
    assert "this very" not in str(caught.value)
    with pytest.raises(LockTimeout):
        await semaphore.acquire(2, wait=0)
    for each in (lease, theirs):
        await each.release()
