"""Each metric next to what happened."""

import pytest
from prometheus_client import CollectorRegistry

from holdtight import AsyncLocks, LeaseLost, LockTimeout, NotOwner, QueueFull, metrics
from tests.ops.counting import Counts
from tests.scenarios.colours import bare
from tests.scenarios.world import World


def counted(world: World, client: AsyncLocks) -> Counts:
    registry = CollectorRegistry()
    metrics.install(bare(client), registry=registry)
    return Counts(registry, kind=world.lock(of=client).options.kind.value)


async def test_grants_waits_and_holds_are_counted(world: World) -> None:
    client = world.locks()
    counts = counted(world, client)
    for _ in range(3):
        async with world.lock(of=client):
            await world.sleep(0.02)
            assert counts("held") == 1
    lease = await world.lock(of=client).acquire()
    assert counts("oldest_hold_seconds") < 5
    (actor,) = await world.line_up(world.lock(of=client), world.lock(of=client).acquire())
    await world.until(lambda: counts("waiters") == 1)
    assert counts("held") == 1
    await world.sleep(0.05)
    await lease.release()
    await (await actor.result()).release()
    assert counts("acquire_success_total") == 5
    assert counts("acquire_wait_seconds_count", outcome="acquired") == 5
    assert 0.05 <= counts("acquire_wait_seconds_sum", outcome="acquired") < 20
    assert counts("hold_duration_seconds_count") == 5
    assert 0.06 + 0.05 <= counts("hold_duration_seconds_sum") < 20
    assert [counts(name) for name in ("held", "waiters", "oldest_hold_seconds")] == [0, 0, 0]
    assert counts.failures() == counts.losses() == {}


async def test_acquisitions_without_a_lease_are_counted_by_their_reason(world: World) -> None:
    client = world.locks(max_waiters=1)
    counts = counted(world, client)
    lock = world.lock(of=client)
    async with world.lock():
        assert await lock.try_acquire() is None
        with pytest.raises(LockTimeout):
            await lock.acquire(wait=0)
        with pytest.raises(LockTimeout):
            await lock.acquire(wait=0.6)
        (actor,) = await world.line_up(world.lock(), world.lock().acquire())
        with pytest.raises(QueueFull):
            await lock.acquire()
    await (await actor.result()).release()
    assert counts.failures() == {"busy": 2, "timeout": 1, "queue_full": 1}
    assert counts("acquire_wait_seconds_count", outcome="failed") == 4
    assert counts("waiters") <= 0
    assert counts("acquire_success_total") <= 0


@pytest.mark.takes_time
async def test_renewals_losses_and_holders_that_never_released_are_counted(world: World) -> None:
    client = world.locks()
    counts = counted(world, client)
    lease = await world.lock("renewed", of=client, ttl=3).acquire()
    await world.renewed(lease)
    renewed = counts("renewals_total", result="renewed")
    assert renewed >= 1
    assert counts("renew_margin_ratio_count") >= renewed
    assert 0 < counts("renew_margin_ratio_sum") < counts("renew_margin_ratio_count")
    await lease.release()
    lost = await world.lock(of=client, ttl=0.3, renew=False).acquire()
    await lost.wait_lost(10)
    async with world.lock(of=client, wait=10):
        assert counts("expired_total") == 1
    gone = await world.lock("gone", of=client, ttl=20).acquire()
    world.server.flushall()
    with pytest.raises(NotOwner):
        await gone.release()
    assert counts.losses() == {"expired": 2}, "also the one that only the release found"
    assert counts("hold_duration_seconds_count") == counts("acquire_success_total") == 4
    assert counts("held") == 0
    with pytest.raises(LeaseLost):
        await lost.release()
