"""A lease is renewed by itself, as long as it should be and no longer."""

import pytest

from holdtight import LossReason, NotOwner
from holdtight.events import Acquired, Lost, PreviousExpired, Queued, Renewed, Waited
from tests.scenarios.world import Stopwatch, World, main_key


def server_has(world: World, name: str = "thing") -> float:
    """Seconds that the server still keeps the lock for its holder."""
    return float((world.server.command("PTTL", main_key(name)) - 10_000) / 1000)


@pytest.mark.takes_time
async def test_a_renewed_lock_outlives_its_ttl(world: World) -> None:
    lock = world.lock(ttl=1.5)
    async with lock as lease:
        before = lease.fence
        clock = Stopwatch()
        while clock.seconds < 1.7:
            lease.check()
            assert 0 < lease.remaining() < 1.5
            await world.sleep(0.05)
        assert (await lock.inspect()).holders[0].owner == lease.owner
        assert lease.fence == before
        assert lease.ttl == 1.5


async def test_the_time_left_falls_and_is_never_more_than_the_servers(world: World) -> None:
    lease = await world.lock(ttl=5, renew=False).acquire()
    looks = []
    for _ in range(5):
        theirs, ours = server_has(world), lease.remaining()
        assert 0 < ours < theirs
        looks.append(ours)
        await world.sleep(0.02)
    assert looks == sorted(looks, reverse=True)
    assert looks[0] - looks[-1] >= 0.08
    await lease.release()


@pytest.mark.locks_only("the keys of sharers never end early, see test_semaphores.py")
async def test_renew_sets_the_time_left_and_never_adds_to_it(world: World) -> None:
    lease = await world.lock(ttl=20).acquire()
    await lease.renew(40)
    assert 30 < lease.remaining() < 40
    assert 30 < server_has(world) <= 40
    for _ in range(3):
        await lease.renew(40)
    assert lease.remaining() < 40
    await lease.renew(10)
    assert 5 < lease.remaining() < 10
    assert 5 < server_has(world) <= 10
    assert lease.ttl == 10
    await lease.renew()
    assert 5 < lease.remaining() < 10
    await lease.release()


@pytest.mark.locks_only("the keys of sharers never end early, see test_semaphores.py")
async def test_a_shorter_ttl_is_what_is_renewed_with_from_then_on(world: World) -> None:
    lease = await world.lock(ttl=20).acquire()
    await lease.renew(1.5)
    await world.renewed(lease)
    assert lease.remaining() < 1.5
    assert server_has(world) <= 1.5
    await lease.release()


@pytest.mark.locks_only("the keys of sharers never end early, see test_semaphores.py")
async def test_renewing_by_hand_keeps_what_is_not_renewed_by_itself(world: World) -> None:
    lease = await world.lock(ttl=3, renew=False).acquire()
    for _ in range(3):
        await world.sleep(0.05)
        left = lease.remaining()
        await lease.renew()
        assert lease.remaining() > left
    await lease.renew(0.05)
    await lease.wait_lost(10)
    assert lease.reason is LossReason.EXPIRED


async def test_what_is_lost_cannot_be_renewed(world: World) -> None:
    lease = await world.lock(ttl=0.05, renew=False).acquire()
    await lease.wait_lost(10)
    with pytest.raises(Exception, match="'thing'") as caught:
        await lease.renew()
    assert getattr(caught.value, "reason", None) is LossReason.EXPIRED


async def test_renewing_what_the_server_has_forgotten_is_a_loss(world: World) -> None:
    lease = await world.lock(ttl=20).acquire()
    world.server.flushall()
    with pytest.raises(NotOwner, match="cannot renew 'thing'") as caught:
        await lease.renew()
    assert caught.value.reason is LossReason.EXPIRED
    assert caught.value.code == "UNLOCK_FAILED"
    assert lease.lost
    with pytest.raises(NotOwner):
        await lease.release()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
@pytest.mark.real_server("the memory store does not forget what it is made of")
async def test_a_server_that_forgot_its_scripts_is_not_noticed(world: World) -> None:
    lock = world.lock(ttl=1.5)
    forget = ("SCRIPT", "FLUSH")
    lease = await lock.acquire()
    waiter = world.start(lock.acquire())
    await world.in_line(lock, 1)
    await world.renewed(lease, meanwhile=lambda: world.server.command(*forget))
    world.server.command(*forget)
    await lease.renew()
    world.server.command(*forget)
    assert await lock.locked()
    world.server.command(*forget)
    await lease.release()
    lease = await waiter.result()
    world.server.command(*forget)
    text = await lease.detach()
    world.server.command(*forget)
    lease = await world.client.adopt(text)
    world.server.command(*forget)
    assert await lock.try_acquire() is None
    world.server.command(*forget)
    await lease.release()
    world.server.command(*forget)
    async with lock:
        world.server.command(*forget)


async def test_max_hold_ends_the_lease_but_releases_nothing_under_the_body(world: World) -> None:
    heard = world.listen()
    clock = Stopwatch()
    lease = await world.lock(ttl=20, max_hold=0.4).acquire()
    assert lease.remaining() <= 0.4
    other = await world.lock().acquire(wait=15)
    assert 0.4 <= clock.seconds < 10
    assert lease.lost  # before another owner could have it
    assert lease.reason is LossReason.MAX_HOLD
    assert other.fence > lease.fence
    await world.until(lambda: len(heard) >= 6)  # two of them took it
    # It ended by its ttl: no release came.
    assert {type(event) for event in heard} == {Acquired, Lost, PreviousExpired, Queued, Waited}
    with pytest.raises(NotOwner) as caught:
        await lease.release()
    assert caught.value.reason is LossReason.MAX_HOLD
    await other.release()


@pytest.mark.takes_time
async def test_max_hold_shortens_the_last_renewal(world: World) -> None:
    heard = world.listen(renewals=True)
    clock = Stopwatch()
    lease = await world.lock(ttl=1.2, max_hold=0.9).acquire()
    while not lease.lost:
        assert lease.remaining() <= 0.9 - clock.seconds + 0.1
        await world.sleep(0.01)
    assert 0.9 <= clock.seconds < 10
    await world.until(lambda: isinstance(heard[-1], Lost))
    assert Renewed in {type(event) for event in heard}
    assert lease.reason is LossReason.MAX_HOLD
