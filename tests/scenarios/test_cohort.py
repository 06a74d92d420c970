"""Waiters of one client pass a grant along among themselves: lock(name, cohort=True)."""

import pickle
from typing import Any

import pytest

from holdtight import (
    AsyncLease,
    AsyncLocks,
    DeadlockDetected,
    LockTimeout,
    LossReason,
    NotSupported,
    Profile,
    QueueFull,
)
from holdtight.clients.cohort_line import WINDOW
from holdtight.events import Acquired, Event, Failed, Released, Waited
from holdtight.stores.times import FENCES
from tests.scenarios.cohorts import FEW, all_wait_for, done, others_wait
from tests.scenarios.colours import bare
from tests.scenarios.world import World

pytestmark = pytest.mark.played(kind=["cohort"])
"""Every other scenario plays with this kind as well, in `make faults`."""


@pytest.mark.usefixtures("wide")
async def test_a_line_is_served_by_one_grant_with_a_rising_fence_for_each_lease(world: World) -> None:
    count, served = world.tap(), list[AsyncLease]()
    lock = world.lock()
    async with lock as first:
        actors = await all_wait_for(world, lock, FEW, served)
        before = count()
    await done(actors)
    fences = [lease.fence for lease in (first, *served)]
    assert fences == sorted(set(fences))
    assert count() - before < FEW  # one release, a connection for it, and the keeper
    assert {lease.owner for lease in served} == {first.owner}
    assert not await lock.locked()
    assert all(lease.reason is None and repr(lease).endswith("released>") for lease in served)


@pytest.mark.usefixtures("wide")
async def test_a_line_is_served_in_order(world: World) -> None:
    lock, served = world.lock(), list[int]()

    async def turn(number: int) -> None:
        async with lock:
            served.append(number)

    async with lock:
        actors = await world.line_up(lock, *map(turn, range(FEW)))
    await done(actors)
    assert served == list(range(FEW))


@pytest.mark.usefixtures("wide")
async def test_max_hold_counts_from_the_hand_over(world: World) -> None:
    """Not from the grant, of which others had a part."""
    lock, ends = world.lock(max_hold=20), list[float]()
    clock = bare(lock).client.place.clock

    async def turn() -> None:
        async with lock as lease:
            ends.append(lease.tenure.hold_until or 0.0)

    async with lock as first:
        actors = await world.line_up(lock, turn())
        handed_on = clock()
    await done(actors)
    assert (first.tenure.hold_until or 0.0) < handed_on + 20 <= ends[0] <= clock() + 20


async def test_without_waiters_it_is_a_lock_like_any_other(world: World) -> None:
    lock = world.lock()
    async with lock as lease:
        assert (await world.locks().inspect(lock.name)).holders[0].owner == lease.owner
        assert await world.locks().lock(lock.name).try_acquire() is None
    assert not await lock.locked()


async def test_the_fences_of_others_are_above_the_whole_range(world: World) -> None:
    lock, other = world.lock(), world.locks().lock("thing")
    for _ in range(3):
        async with lock as lease:
            info = await lock.inspect()
            assert info.fence == lease.fence + FENCES - 1
        async with other as next_one:
            assert next_one.fence > info.fence
            assert info.fence is not None


async def count_together(world: World, clients: list[AsyncLocks], actors: int, rounds: int) -> list[int]:
    """A counter that loses updates if two actors change it at the same time. Returns the fences in order."""
    count, fences = 0, list[int]()

    async def work(client: AsyncLocks) -> None:
        nonlocal count
        for number in range(rounds):
            async with world.lock(of=client) as lease:
                before = count
                if number % 3 == 0:
                    await world.sleep(0)
                fences.append(lease.fence)
                count = before + 1

    await done([world.start(work(clients[at % len(clients)])) for at in range(actors)])
    assert count == actors * rounds
    return fences


async def test_several_clients_lose_no_update_and_no_fence_falls(world: World) -> None:
    fences = await count_together(world, [world.locks() for _ in range(3)], actors=12, rounds=30)
    assert fences == sorted(set(fences))


@pytest.mark.usefixtures("wide")
async def test_a_grant_is_passed_on_for_a_limited_number_of_times(world: World) -> None:
    """Each batch has its own owner, and no more leases than the range has fences."""
    lock, leases = world.lock(), list[tuple[str, int]]()

    async def work() -> None:
        for _ in range(60):
            async with lock as lease:
                leases.append((lease.owner, lease.fence))
                await world.until(lambda: len(leases) > 3 * 60 or others_wait(lock))

    async with lock:
        actors = await world.line_up(lock, *(work() for _ in range(4)))
    await done(actors)
    owners = [owner for owner, _ in leases]
    assert owners.count(leases[0][0]) == FENCES - 1  # the first lease was this actor's
    assert owners.count(leases[FENCES][0]) == FENCES
    fences = [fence for _, fence in leases]
    assert fences == sorted(set(fences))


async def test_a_holder_that_stays_longer_than_the_window_passes_nothing_on(world: World) -> None:
    lock, served = world.lock(), list[AsyncLease]()
    async with lock as first:
        actors = await all_wait_for(world, lock, 2, served)
        await world.sleep(2 * WINDOW)
    await done(actors)
    assert first.owner not in {lease.owner for lease in served}


async def test_another_client_gets_its_turn_between_two_batches(world: World) -> None:
    """Others are served although this client's line is never empty."""
    busy, over = world.locks(), False

    async def keep_busy() -> None:
        while not over:
            async with world.lock(of=busy):
                await world.sleep(0)

    actors = [world.start(keep_busy()) for _ in range(4)]
    try:
        for _ in range(10):
            await (await world.locks().lock("thing").acquire(wait=20)).release()
    finally:
        over = True
        await done(actors)


async def test_a_member_whose_wait_ends_leaves_the_line(world: World) -> None:
    lock, served = world.lock(), list[AsyncLease]()
    lease = await lock.acquire()
    leader = await world.line_up(lock, lock.acquire())
    quitter = world.start(lock.acquire(wait=0.6))
    with pytest.raises(LockTimeout, match="not acquired") as caught:
        await quitter.result()
    assert (caught.value.waited or 0) >= 0.6
    assert caught.value.holder is not None
    assert caught.value.holder.owner == lease.owner
    await world.in_line(lock, 1)
    await lease.release()
    (actor,) = leader
    await (await actor.result()).release()
    assert served == []


async def test_when_the_leader_gives_up_the_next_one_leads(world: World) -> None:
    lock = world.lock()
    lease = await world.locks().lock("thing").acquire()
    leader, patient = await world.line_up(lock, lock.acquire(wait=1.5), lock.acquire())
    with pytest.raises(LockTimeout):
        await leader.result()
    await lease.release()
    await (await patient.result()).release()


async def test_a_caller_that_does_not_wait_gets_nothing_of_a_held_lock(world: World) -> None:
    lock = world.lock()
    async with lock:
        assert await world.apart(lock.try_acquire()) is None
        with pytest.raises(LockTimeout):
            await world.apart(lock.acquire(wait=0))


async def test_a_full_line_turns_the_next_away(world: World) -> None:
    client = world.locks(max_waiters=2)
    lock, served = world.lock(of=client), list[AsyncLease]()
    async with lock:
        actors = await all_wait_for(world, lock, 2, served)
        with pytest.raises(QueueFull, match=r"2 are waiting.*max_waiters is 2"):
            await world.apart(lock.acquire())
    await done(actors)


async def test_an_inspection_lists_the_members_of_the_line(world: World) -> None:
    lock, served = world.lock(label="hot"), list[AsyncLease]()
    async with lock:
        actors = await all_wait_for(world, lock, FEW, served)
        info = await lock.inspect()
        assert info.waiting == len(info.waiters) == FEW
        assert {(each.label, each.pid, each.host) for each in info.waiters} == {
            ("hot", info.holders[0].pid, info.holders[0].host)
        }
        assert all(each.since and info.holders[0].since and each.since > info.holders[0].since for each in info.waiters)
        assert [each.owner for each in (await lock.inspect()).waiters] == [each.owner for each in info.waiters]
    await done(actors)


@pytest.mark.usefixtures("wide")
async def test_re_entry_shares_the_lease_that_was_handed_on(world: World) -> None:
    lock, seen = world.lock(reentrant=True), list[tuple[int, int]]()

    async def twice() -> None:
        async with lock as outer, lock as inner:
            seen.append((outer.fence, inner.fence))

    async with lock:
        actors = await world.line_up(lock, *(twice() for _ in range(FEW)))
    await done(actors)
    assert all(outer == inner for outer, inner in seen)
    assert len(set(seen)) == FEW


@pytest.mark.usefixtures("wide")
async def test_a_lease_that_was_handed_on_is_renewed(world: World) -> None:
    lock = world.lock(ttl=3)

    async def long_turn() -> None:
        async with lock as lease:
            await world.renewed(lease)

    async with lock:
        actors = await world.line_up(lock, lock_and_leave(lock), long_turn())
    await done(actors)


async def lock_and_leave(lock: Any) -> None:
    async with lock:
        pass


async def test_members_do_not_wait_for_a_holder_that_has_lost_the_lock(world: World) -> None:
    """The holder is stuck in its body; its lease ends, and the line goes on."""
    lock, served = world.lock(ttl=0.3, renew=False), list[AsyncLease]()
    stuck = await lock.acquire()
    actors = await all_wait_for(world, lock, 2, served)
    await done(actors)
    assert stuck.reason is LossReason.EXPIRED
    assert all(lease.fence > stuck.fence for lease in served)


@pytest.mark.usefixtures("wide")
async def test_a_deadlock_of_members_is_found(world: World) -> None:
    """One member holds another lock in a block, for which the holder waits: the wait in the local line counts."""
    client = world.locks(deadlock_after=0.1)
    hot, other = world.lock("hot", of=client), world.lock("other", of=client)
    inside = errors = 0

    async def crosswise(mine: Any, theirs: Any) -> None:
        nonlocal inside, errors
        try:
            async with mine:
                inside += 1
                await world.until(lambda: inside == 2)
                async with theirs:
                    pass
        except DeadlockDetected:
            errors += 1

    actors = [world.start(crosswise(hot, other))]
    await world.until(lambda: inside == 1)
    actors += await world.line_up(hot, lock_and_leave(hot), lock_and_leave(hot))  # ahead of the one that matters
    actors.append(world.start(crosswise(other, hot)))
    await done(actors)
    assert errors == 1


@pytest.mark.usefixtures("wide")
async def test_events_name_each_lease_of_a_batch(world: World) -> None:
    heard, lock, served = world.listen(), world.lock(), list[AsyncLease]()
    async with lock:
        actors = await all_wait_for(world, lock, FEW, served)
    await done(actors)
    fences = [lease.fence for lease in served]

    def told(what: type[Event]) -> list[Any]:
        return [event for event in heard if type(event) is what]

    assert [event.fence for event in told(Acquired)[1:]] == fences
    assert [event.fence for event in told(Released)[1:]] == fences
    assert len(told(Waited)) == FEW


@pytest.mark.usefixtures("wide")
async def test_closing_the_client_refuses_the_members(world: World) -> None:
    client = world.locks()
    heard = world.listen(client)
    lock, served = world.lock(of=client), list[AsyncLease]()
    lease = await lock.acquire()
    actors = await all_wait_for(world, lock, 3, served)
    await client.aclose()
    for actor in actors:
        with pytest.raises(RuntimeError, match="is closed"):
            await actor.result(within=3)
    assert [event.reason for event in heard if isinstance(event, Failed)] == ["error"] * 3
    await lease.release()
    assert served == []


async def test_a_profile_makes_a_cohort_of_exclusive_locks_only(world: World) -> None:
    client = world.locks(profiles={"hot:*": Profile(cohort=True)})
    assert bare(client.lock("hot:1")).options.cohort
    assert not bare(client.lock("hot:1", cohort=False)).options.cohort
    assert not bare(client.lock("cold")).options.cohort
    async with client.rwlock("hot:1").write(), client.semaphore("hot:2", permits=2), client.multi("hot:3", "hot:4"):
        pass


async def test_it_pickles_with_its_options(world: World) -> None:
    lock = world.locks("redis://nobody.invalid").lock("thing", cohort=True)
    again = pickle.loads(pickle.dumps(bare(lock)))
    assert again.options.cohort
    assert type(again) is type(bare(lock))


async def test_only_exclusive_locks_of_one_server_can_have_it(world: World) -> None:
    client = world.client
    for refused in (
        lambda: client.rwlock("a", cohort=True),  # type: ignore[call-arg]
        lambda: client.rwlock("a").write(cohort=True),  # type: ignore[call-arg]
        lambda: client.semaphore("a", permits=2, cohort=True),  # type: ignore[call-arg]
        lambda: client.multi("a", "b", cohort=True),  # type: ignore[call-arg]
    ):
        with pytest.raises(NotSupported, match=r"cannot have cohort=True.*only an exclusive lock"):
            refused()
    with pytest.raises(NotSupported, match=r"lock 'a' has cohort=True and cannot be part of a multi"):
        client.multi(client.lock("a", cohort=True), "b")
    quorum = world.locks(["redis://one.invalid", "redis://two.invalid", "redis://three.invalid"])
    with pytest.raises(NotSupported, match="a quorum has no cohort=True"):
        quorum.lock("a", cohort=True)
    with pytest.raises(TypeError, match="cohort must be True or False, not 1"):
        client.lock("a", cohort=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"profiles\['a'\]\.cohort must be True or False"):
        world.locks(profiles={"a": Profile(cohort="yes")})  # type: ignore[arg-type]
