"""Where a grant of a cohort is not passed on: detached, renewed by hand, downgraded, lost, given up."""

import pytest

from holdtight import (
    AsyncLease,
    LossReason,
    NotOwner,
)
from tests.scenarios.cohorts import all_wait_for, done, one_leads
from tests.scenarios.colours import bare
from tests.scenarios.world import World, main_key

pytestmark = pytest.mark.played(kind=["cohort"])
"""Every other scenario plays with this kind as well, in `make faults`."""


@pytest.mark.takes_time
async def test_max_hold_counts_for_each_lease(world: World) -> None:
    lock = world.lock(ttl=30, max_hold=1)
    lost = list[AsyncLease]()

    async def overstay() -> None:
        lease = await lock.acquire()
        assert 0.3 < lease.remaining() <= 1
        assert await lease.wait_lost(10)
        lost.append(lease)

    async with lock:
        actors = await world.line_up(lock, overstay(), overstay())
    await done(actors)
    assert [lease.reason for lease in lost] == [LossReason.MAX_HOLD] * 2


@pytest.mark.usefixtures("wide")
async def test_what_is_detached_is_not_passed_on(world: World) -> None:
    lock, served = world.lock(), list[AsyncLease]()
    lease = await lock.acquire()
    actors = await all_wait_for(world, lock, 2, served)
    text = await lease.detach(ttl=10)
    await one_leads(world)
    assert served == []
    await (await world.client.adopt(text)).release()
    await done(actors)


@pytest.mark.usefixtures("wide")
async def test_a_lease_that_is_renewed_by_hand_is_not_passed_on(world: World) -> None:
    lock, served = world.lock(), list[AsyncLease]()
    async with lock as lease:
        actors = await all_wait_for(world, lock, 2, served)
        await lease.renew(20)
        await one_leads(world)
    await done(actors)
    assert lease.owner not in {each.owner for each in served}
    assert all(each.ttl == 30 for each in served)


@pytest.mark.usefixtures("wide")
async def test_a_downgraded_lease_is_not_passed_on(world: World) -> None:
    lock, served = world.lock(), list[AsyncLease]()
    lease = await lock.acquire()
    actors = await all_wait_for(world, lock, 2, served)
    reading = await lease.downgrade()
    await one_leads(world)
    assert reading.kind.value == "shared"
    assert served == []
    await reading.release()
    await done(actors)


@pytest.mark.takes_time
@pytest.mark.usefixtures("wide")
async def test_a_grant_that_was_forced_is_lost_and_not_passed_on(world: World) -> None:
    lock, served = world.lock(ttl=3), list[AsyncLease]()
    world.forced_ms = 20_000
    lease = await lock.acquire()
    actors = await all_wait_for(world, lock, 2, served)
    record = await world.locks().force_release(lock.name, reason="why")
    assert record is not None
    assert [holder.owner for holder in record.holders] == [lease.owner]
    await world.until(lambda: lease.lost, within=10)
    assert lease.reason is LossReason.FORCED
    with pytest.raises(NotOwner):
        await lease.release()
    await done(actors)
    assert all(each.fence > record.fence > lease.fence for each in served)


@pytest.mark.usefixtures("wide")
async def test_a_lease_that_is_given_up_is_not_passed_on(world: World) -> None:
    """As after an interrupt at the end of its block: the keeper releases it."""
    lock, served = world.lock(), list[AsyncLease]()
    lease = await lock.acquire()
    actors = await all_wait_for(world, lock, 2, served)
    bare(lease).forsake()
    for actor in actors:
        await actor.result(within=3)
    assert lease.owner not in {each.owner for each in served}


@pytest.mark.real_server("it is told by a command that the memory store does not have")
async def test_a_key_that_lost_its_holder_is_taken_over_with_a_higher_fence(world: World) -> None:
    """The server lost the key: the current holder is lost, and what it would have passed on is not."""
    lock, served = world.lock(ttl=3), list[AsyncLease]()
    lease = await lock.acquire()
    actors = await all_wait_for(world, lock, 2, served)
    world.server.command("DEL", main_key("thing"))
    await done(actors)
    assert await lease.wait_lost(10)
    assert all(each.fence > lease.fence for each in served)
