"""Waiting: how long, in which order, and what a wait leaves behind."""

import os
import socket
import time

import pytest

from holdtight import AsyncLock, AsyncLocks, Kind, LockTimeout, QueueFull
from holdtight.stores.redis.inspection import exclusive_holder
from holdtight.stores.times import CLAIM_MS
from tests.scenarios.world import Stopwatch, World, main_key

OWNER = bytes(range(24))
TRIALS = 5
pollers = pytest.mark.real_server("the memory store has no connection on which nobody can be rung")


async def take_turns(world: World, lock: AsyncLock, served: list[str]) -> None:
    async with lock as lease:
        served.append(lease.owner)
        await world.sleep(0.001)


async def expect_order_of_the_queue(world: World, lock: AsyncLock, others: list[AsyncLocks]) -> None:
    """Waiters of several clients line up one after another, and are served as the server lists them."""
    served: list[str] = []
    lease = await lock.acquire()
    scenes = [take_turns(world, world.lock(lock.name, of=client), served) for client in others]
    actors = await world.line_up(lock, *scenes)
    listed = [waiter.owner for waiter in (await lock.inspect()).waiters]
    await lease.release()
    for actor in actors:
        await actor.result()
    assert served == listed
    assert len(set(served)) == len(others)


@pytest.mark.no_cohort("other clients do not see the local line")
async def test_waiters_are_served_in_the_order_of_the_servers_queue(world: World) -> None:
    one, two = world.locks(), world.locks()
    await expect_order_of_the_queue(world, world.lock(), [one, two, one, one, two, two])


@pollers
@pytest.mark.no_cohort("other clients do not see the local line")
async def test_without_resp3_waiters_poll_and_are_served_in_order_all_the_same(world: World) -> None:
    one, two = (world.locks(world.server.url + "?protocol=2&client_name=poller") for _ in range(2))
    await expect_order_of_the_queue(world, world.lock(of=one), [one, two, two, one])
    assert {client["sub"] for client in world.server.clients() if client["name"] == "poller"} == {"0"}


@pollers
@pytest.mark.no_cohort("other clients do not see the local line")
async def test_pollers_and_rung_waiters_stand_in_one_line(world: World) -> None:
    polling, rung = world.locks(world.server.url + "?protocol=2"), world.locks()
    await expect_order_of_the_queue(world, world.lock(of=rung), [polling, rung, polling, rung])


async def count_together(world: World, clients: list[AsyncLocks], actors: int, rounds: int) -> None:
    """A counter that loses updates if two actors change it at the same time."""
    count = inside = 0

    async def work(lock: AsyncLock) -> None:
        nonlocal count, inside
        for _ in range(rounds):
            async with lock:
                inside += 1
                assert inside == 1
                before = count
                await world.sleep(0)
                count = before + 1
                inside -= 1

    workers = [world.start(work(world.lock(of=clients[at % len(clients)]))) for at in range(actors)]
    for worker in workers:
        await worker.result()
    assert count == actors * rounds


async def test_sixteen_at_one_counter_lose_no_update(world: World) -> None:
    await count_together(world, [world.locks(), world.locks()], actors=16, rounds=10)


@pollers
async def test_pollers_lose_no_update_either(world: World) -> None:
    polling = world.locks(world.server.url + "?protocol=2")
    await count_together(world, [polling, world.locks()], actors=4, rounds=3)


async def test_with_fewer_connections_than_waiters_everybody_is_served(world: World) -> None:
    await count_together(world, [world.locks(max_connections=3, connect_timeout=10)], actors=6, rounds=5)


async def test_no_wait_is_no_wait(world: World) -> None:
    lock = world.lock(wait=0)
    async with lock:
        clock = Stopwatch()
        with pytest.raises(LockTimeout) as caught:
            await world.lock(of=world.locks()).acquire(wait=0)
        assert clock.seconds < 5
        assert (await lock.inspect()).waiters == ()
    assert caught.value.code == "LOCK_TIMEOUT"
    assert isinstance(caught.value, TimeoutError)


async def test_waiting_for_ever_ends_with_the_lock(world: World) -> None:
    lock = world.lock()
    lease = await lock.acquire()
    waiter = world.start(lock.acquire(wait=None))
    await world.in_line(lock, 1)
    assert not waiter.done
    await lease.release()
    await (await waiter.result()).release()


@pytest.mark.parametrize("wait", [0, 0.3], ids=["at once", "after a wait"])
@pytest.mark.no_cohort("the server knows the last fence of the range")
async def test_a_timeout_names_the_holder_and_leaves_no_entry(world: World, wait: float) -> None:
    lock = world.lock("stock", ttl=20, label="nightly count")
    lease = await lock.acquire()
    clock = Stopwatch()
    with pytest.raises(LockTimeout) as caught:
        await world.lock("stock", of=world.locks()).acquire(wait=wait)
    error, host = caught.value, socket.gethostname()
    assert wait <= clock.seconds < wait + 5
    assert error.holder is not None
    assert (error.holder.owner, error.holder.host, error.holder.pid) == (lease.owner, host, os.getpid())
    assert error.holder.expires_in is not None
    assert 0 < error.holder.expires_in <= 20
    assert (error.name, error.code) == ("stock", "LOCK_TIMEOUT")
    assert error.waited == pytest.approx(wait, abs=5)
    assert "'stock'" in str(error)
    assert f"{host}, pid {os.getpid()}" in str(error)
    if lease.kind is Kind.EXCLUSIVE:
        assert f", pid {os.getpid()} (nightly count), " in str(error)
        assert error.holder.fence == lease.fence
    assert (await lock.inspect()).waiters == ()
    assert world.server.command("EXISTS", main_key("stock") + ":q") == 0
    await lease.release()


@pytest.mark.no_cohort("no inspection shows a member that becomes the leader just then")
async def test_a_waiter_that_gives_up_is_not_in_the_way_of_the_next(world: World) -> None:
    lock = world.lock()
    lease = await lock.acquire()

    async def give_up() -> None:
        with pytest.raises(LockTimeout, match=r"not acquired"):
            await lock.acquire(wait=1)  # both must be in line at the same time, also on a busy machine

    quitter, patient = await world.line_up(lock, give_up(), lock.acquire())
    await quitter.result()
    (left,) = (await lock.inspect()).waiters
    await lease.release()
    got = await patient.result()
    assert got is not None
    assert got.owner == left.owner
    await got.release()


@pytest.mark.no_cohort("who waited in the local line knows no place in the server's")
async def test_the_timeout_tells_how_many_were_ahead(world: World) -> None:
    lock = world.lock()
    lease = await lock.acquire()
    first, second = await world.line_up(lock, lock.acquire(), lock.acquire(wait=0.6))
    with pytest.raises(LockTimeout, match="1 ahead of us"):
        await second.result()
    await lease.release()
    await (await first.result()).release()


@pytest.mark.parametrize("found", [None, b"", b"x1", b"x1-" + OWNER, b"x1-" + OWNER + b"no fence", b"t1-1", 7])
def test_a_holder_that_cannot_be_made_out_spoils_no_message(found: object) -> None:
    assert exclusive_holder(found, OWNER) is None
    held = exclusive_holder(b"x1-" + OWNER + b"%016d" % 12 + b"nightly", OWNER)
    assert held is not None
    assert (held.fence, held.label) == (12, "nightly")
    assert exclusive_holder(b"x1-" + OWNER + b"%016d" % 12, OWNER[::-1]) is None


async def test_an_expired_holder_makes_room_for_a_waiter(world: World) -> None:
    lock = world.lock(ttl=0.2, renew=False)
    lost = await lock.acquire()
    waiter = world.lock(of=world.locks())
    clock = Stopwatch()
    next_one = await waiter.acquire(wait=10)
    assert 0.1 < clock.seconds < 5
    assert lost.lost
    assert next_one.fence > lost.fence
    await next_one.release()


@pytest.mark.no_cohort("the local line has a limit of its own")
async def test_a_full_queue_turns_the_next_away(world: World) -> None:
    client = world.locks(max_waiters=2)
    lock = world.lock("narrow", of=client)
    lease = await lock.acquire()
    waiters = await world.line_up(lock, lock.acquire(), lock.acquire())
    with pytest.raises(QueueFull, match=r"'narrow'.*2 are waiting.*max_waiters is 2") as caught:
        await lock.acquire()
    assert (caught.value.code, caught.value.name) == ("QUEUE_FULL", "narrow")
    assert len((await lock.inspect()).waiters) == 2
    assert await lock.try_acquire() is None  # does not queue, so a full queue does not matter
    await lease.release()
    for waiter in waiters:
        await (await waiter.result()).release()
    async with lock:  # there is room again
        pass


async def test_a_latecomer_does_not_overtake_the_line(world: World) -> None:
    """A waiter that needs longer than the claim window to confirm may be overtaken: such a trial says nothing."""
    lock, late = world.lock(), None
    for _ in range(TRIALS):
        lease = await lock.acquire()
        (waiter,) = await world.line_up(lock, lock.acquire())
        released = time.monotonic()
        await lease.release()
        late = await lock.try_acquire()
        took = time.monotonic() - released
        if late is not None:
            assert took >= CLAIM_MS / 1000
            await late.release()
        await (await waiter.result()).release()
        if late is None:
            return
    raise AssertionError(f"no waiter confirmed in time, the last one not within {took:.1f} s")
