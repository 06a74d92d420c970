"""Looking at a lock from outside: its holders and waiters."""

import os
import socket
import time

import pytest

from holdtight import LockInfo
from tests.scenarios.world import World

HOST, PID = socket.gethostname(), os.getpid()


async def test_a_name_that_was_never_used_is_free(world: World) -> None:
    assert await world.lock("new").inspect() == LockInfo("new")
    assert not (await world.client.inspect("new")).locked
    assert world.overstaying(tombstone_ms=0) == {}  # looking leaves nothing behind


@pytest.mark.no_cohort("the server knows the last fence of the range")
async def test_the_holder_is_shown_with_all_that_helps_to_find_it(world: World) -> None:
    lease = await world.lock("job", ttl=20, label="nightly billing").acquire()
    for look in (world.client, world.locks()):
        info = await look.inspect("job")
        (holder,) = info.holders
        assert (info.name, info.kind, info.locked, info.fence) == ("job", lease.kind, True, lease.fence)
        assert (holder.owner, holder.fence) == (lease.owner, lease.fence)
        assert (holder.host, holder.pid, holder.label) == (HOST, PID, "nightly billing")
        assert holder.expires_in is not None
        assert 10 < holder.expires_in <= 20
        assert holder.since is not None
        assert abs(holder.since - time.time()) < 5
        assert holder.entered == (1 if look is world.client else None)  # told of own leases only
    await lease.release()


async def test_the_label_of_the_client_is_the_default(world: World) -> None:
    client = world.locks(label="api server")
    other = world.lock("b", of=client, label="other")
    async with world.lock("a", of=client), other, world.lock("c", label=None):
        labels = [(await client.inspect(name)).holders[0].label for name in "abc"]
    assert labels == ["api server", "other", None]


@pytest.mark.locks_only("a permit is neither entered again nor handed over")
async def test_entries_are_counted(world: World) -> None:
    lock = world.lock(reentrant=True)
    async with lock, lock, lock:
        assert (await lock.inspect()).holders[0].entered == 3


async def test_waiters_are_shown_in_order_with_host_and_pid(world: World) -> None:
    clients = [world.locks(label=f"waiter {number}") for number in range(3)]
    lock = world.lock()
    lease = await lock.acquire()
    actors = await world.line_up(lock, *(world.lock(of=client).acquire() for client in clients))
    info = await lock.inspect()
    assert [waiter.label for waiter in info.waiters] == ["waiter 0", "waiter 1", "waiter 2"]
    assert {(waiter.host, waiter.pid) for waiter in info.waiters} == {(HOST, PID)}
    since = [waiter.since or 0 for waiter in info.waiters]
    assert since == sorted(since)
    assert all(abs(moment - time.time()) < 5 for moment in since)
    assert info.waiting == 3
    await lease.release()
    for actor, waiter in zip(actors, info.waiters, strict=True):
        got = await actor.result()
        assert got.owner == waiter.owner
        assert (await lock.inspect()).holders[0].owner == got.owner
        await got.release()
    assert (await lock.inspect()).waiters == ()


@pytest.mark.no_cohort("the server knows the last fence of the range")
async def test_a_released_lock_remembers_its_fence_for_a_while(world: World) -> None:
    lock = world.lock()
    async with lock as lease:
        pass
    info = await lock.inspect()
    assert (info.locked, info.kind, info.holders, info.fence) == (False, None, (), lease.fence)


@pytest.mark.locks_only("the wait for a permit is published only by a holder of another lock")
async def test_a_holder_that_waits_for_another_lock_says_for_which(world: World) -> None:
    client = world.locks(deadlock_after=0.05)
    desk, book = world.lock("desk", of=client), world.lock("book", of=client)

    async def hold_the_book_and_wait_for_the_desk() -> None:
        async with book:
            await (await desk.acquire()).release()

    lease = await desk.acquire()
    actor = world.start(hold_the_book_and_wait_for_the_desk())

    async def said() -> str | None:
        holders = (await world.client.inspect("book")).holders
        return holders[0].waits_for if holders else None

    assert await world.until(said) == "desk"
    assert (await world.client.inspect("desk")).holders[0].waits_for is None
    await lease.release()
    await actor.result()
    assert (await world.client.inspect("book")).holders == ()
