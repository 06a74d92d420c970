"""Nothing is left behind, in the process or on the server: by dropped clients, and by closed ones."""

import gc
import warnings

import pytest

from holdtight import LeaseLost, LockTimeout
from tests.scenarios.world import World, main_key


@pytest.mark.takes_time
async def test_a_lease_that_nobody_has_any_more_is_renewed_no_more(world: World) -> None:
    lease = await world.lock(ttl=0.9).acquire()
    with pytest.warns(ResourceWarning, match="'thing' was dropped without release"):  # noqa: PT031
        del lease
        gc.collect()
    async with world.lock(of=world.locks(), wait=10):  # waits until that one has ended
        pass


async def test_a_lease_with_a_callback_can_be_forgotten_too(world: World) -> None:
    called: list[object] = []
    lease = await world.lock(ttl=20).acquire()
    lease.on_lost(called.append)
    with pytest.warns(ResourceWarning, match="dropped"):  # noqa: PT031
        del lease
        gc.collect()
    assert called == []
    world.server.flushall()


async def test_a_block_keeps_its_lease(world: World) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with world.lock():
            gc.collect()
            assert await world.lock().locked()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_of_two_handles_the_forgotten_one_takes_nothing_along(world: World) -> None:
    lock = world.lock(reentrant=True)
    first, second = await lock.acquire(), await lock.acquire()
    del second
    gc.collect()
    first.check()
    await first.release()
    assert not await lock.locked()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
@pytest.mark.no_cohort("other clients do not see the local line")
async def test_after_all_is_done_only_short_lived_traces_are_left(world: World) -> None:
    """As after every scenario (see World); here once with everything, and with all clients still open."""
    client = world.locks()

    async def turn() -> None:
        async with world.lock(of=client):
            await world.sleep(0.001)

    async def give_up() -> None:
        with pytest.raises(LockTimeout):
            await world.lock(of=client).acquire(wait=0.6)

    lease = await world.lock(ttl=20).acquire()
    actors = await world.line_up(world.lock(), turn(), turn(), give_up())
    adopted = await world.client.adopt(await lease.detach(10))
    await actors[-1].result()
    await adopted.renew(30)
    await adopted.release()
    for actor in actors:
        await actor.result()
    expired = await world.lock("other", ttl=0.05, renew=False).acquire()
    await expired.wait_lost(10)
    await world.until(lambda: not world.overstaying(), within=1)
    keys = world.server.keys()
    assert main_key("thing") in keys  # the last fence, for a while
    assert not [key for key in keys if key.endswith(":q")]
    records = [key for key in keys if ":client:" in key]
    assert len(records) == 2
    for record in records:
        assert 10 < world.server.command("TTL", record) <= 30 + 40, "40 s more than the longest ttl"


async def test_closing_takes_the_clients_record_away(world: World) -> None:
    client = world.locks()
    async with world.lock(of=client):
        await world.until(lambda: len(world.server.keys("ht:client:*")) == 1)  # on a cluster the keeper writes it
    await client.aclose()
    await client.aclose()
    await world.until(lambda: world.server.keys("ht:client:*") == [], within=5)


@pytest.mark.takes_time
async def test_closing_ends_the_connections(world: World) -> None:
    client, connections = world.counted_client()
    lease = await world.lock(of=client, ttl=3).acquire()
    await world.until(lambda: connections() == 2)  # the keeper renews on one of its own
    await lease.release()
    await client.aclose()
    await world.until(lambda: connections() == 0)


async def test_a_lease_that_is_held_at_close_is_renewed_and_can_be_released(world: World) -> None:
    client, connections = world.counted_client()
    lease = await world.lock(of=client, ttl=1.5).acquire()
    await client.aclose()
    await world.renewed(lease)
    assert await world.lock().locked()
    await lease.release()
    assert not await world.lock().locked()
    await world.until(lambda: connections() <= 1, within=5)  # the keeper's own may stay a little


async def test_a_block_that_is_open_at_close_ends_well(world: World) -> None:
    client = world.locks()
    async with world.lock(of=client):
        await client.aclose()
    assert not await world.lock().locked()


async def test_a_closed_client_takes_no_more_locks(world: World) -> None:
    client = world.locks()
    lock = world.lock(of=client)
    async with client, lock:
        pass
    for take in (lock.acquire, lock.try_acquire, lock.hold().__aenter__, lock.__aenter__):
        with pytest.raises(RuntimeError, match="closed"):
            await take()


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_a_closed_client_takes_no_several_locks_and_adopts_none(world: World) -> None:
    client = world.locks()
    several = client.multi("one", "two")
    text = await (await world.lock("baton", of=client).acquire()).detach()
    await client.aclose()
    for take in (several.acquire, several.try_acquire, several.hold().__aenter__, several.__aenter__):
        with pytest.raises(RuntimeError, match="closed"):
            await take()
    with pytest.raises(RuntimeError, match="closed"):
        await client.adopt(text)
    await (await world.client.adopt(text)).release()


async def test_a_client_that_never_sent_anything_can_be_closed(world: World) -> None:
    async with world.locks("redis://127.0.0.1:1"):
        pass


async def test_a_lost_lease_leaves_the_client_well(world: World) -> None:
    for _ in range(3):
        lease = await world.lock(ttl=0.05, renew=False).acquire(wait=10)
        await lease.wait_lost(10)
        with pytest.raises(LeaseLost):
            await lease.release()
    async with world.lock(wait=10):
        pass
