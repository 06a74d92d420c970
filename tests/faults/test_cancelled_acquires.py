"""Fault 2 of the peers: whenever an acquire is cancelled, nothing of it stays on the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from holdtight import AsyncLocks, LeaseLost, Locks
from holdtight.aio.lease import AsyncLease
from holdtight.stores.redis import script
from tests.faults.clients import asks, load_scripts, tidy, waiting
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

Moment: TypeAlias = Callable[[], Awaitable[None]]


def after_turns(turns: int) -> Moment:
    async def pass_by() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    return pass_by


def after_delay(delay: float) -> Moment:
    async def pass_by() -> None:
        end = time.perf_counter() + delay
        while time.perf_counter() < end:
            await asyncio.sleep(0)

    return pass_by


def sixty_moments(life: float) -> list[Moment]:
    """Thirty moments counted in turns of the loop, thirty spread over one and a half times the length of an acquire."""
    return [after_turns(turns) for turns in range(30)] + [
        after_delay(1.5 * life * (number + 1) / 30) for number in range(30)
    ]


async def life_of(acquire: Callable[[], Awaitable[AsyncLease]]) -> float:
    started = time.perf_counter()
    lease = await acquire()
    took = time.perf_counter() - started
    await lease.release()
    return took


async def cancelled(task: asyncio.Task[AsyncLease]) -> bool:
    """Cancels; releases the lease if the acquire was quicker."""
    task.cancel()
    try:
        lease = await task
    except asyncio.CancelledError:
        return True
    await lease.release()
    return False


def free_at_once(witness: Locks, name: str) -> None:
    lease = witness.lock(name).try_acquire()
    assert lease is not None, f"{name} is not free: {witness.inspect(name)}"
    lease.release()


def tidied(server: RunningServer) -> None:
    """At once, or as soon as the keeper has sent the undo to the server."""

    def is_tidy() -> bool:
        try:
            tidy(server)
        except AssertionError:
            return False
        return True

    try:
        wait_for(is_tidy, within=2)
    except AssertionError:
        tidy(server)
        raise


def test_an_acquire_of_a_free_lock_is_cancelled_at_sixty_moments(private_server: RunningServer) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            lock = locks.lock("a")
            await life_of(lock.acquire)
            hits = 0
            for moment in sixty_moments(await life_of(lock.acquire)):
                task = asyncio.create_task(lock.acquire())
                await moment()
                hits += await cancelled(task)
                free_at_once(witness, "a")
            assert hits >= 5, "most cancellations came too late to show anything"

    with Locks(private_server.url) as witness:
        asyncio.run(main())
        tidied(private_server)


def test_an_acquire_that_must_connect_first_is_cancelled_at_sixty_moments(
    private_server: RunningServer,
) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as warm, AsyncLocks(private_server.url) as cold:
            await life_of(warm.lock("a").acquire)
            life = await life_of(cold.lock("a").acquire)
        hits = 0
        for moment in sixty_moments(life):
            async with AsyncLocks(private_server.url) as locks:
                task = asyncio.create_task(locks.lock("a").acquire())
                await moment()
                hits += await cancelled(task)
                free_at_once(witness, "a")
        assert hits >= 5

    with Locks(private_server.url) as witness:
        asyncio.run(main())
        tidied(private_server)


def test_a_waiter_is_cancelled_at_sixty_moments(private_server: RunningServer) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            lock = locks.lock("a")
            life = await life_of(lock.acquire)
            for moment in sixty_moments(3 * life):
                with witness.lock("a"):
                    task = asyncio.create_task(lock.acquire())
                    await moment()
                    assert await cancelled(task)
                    assert waiting(private_server, "a") == 0
                free_at_once(witness, "a")

    with Locks(private_server.url) as witness:
        asyncio.run(main())
        tidied(private_server)


def test_a_waiter_is_cancelled_at_sixty_moments_around_the_hand_over(private_server: RunningServer) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks, AsyncLocks(private_server.url) as others:
            lock, other = locks.lock("a"), others.lock("a")
            await life_of(lock.acquire)
            life = await life_of(lock.acquire)
            hits = 0
            for moment in sixty_moments(6 * life):
                held = await other.acquire()
                task = asyncio.create_task(lock.acquire())
                while waiting(private_server, "a") == 0:
                    await asyncio.sleep(0)
                releasing = asyncio.create_task(held.release())
                await moment()
                hits += await cancelled(task)
                await releasing
                free_at_once(witness, "a")
            assert 5 <= hits < 60, f"{hits} of 60: the moments miss the hand-over"

    with Locks(private_server.url) as witness:
        asyncio.run(main())
        tidied(private_server)


def test_the_next_in_line_is_served_at_once_when_a_waiter_is_cancelled_at_the_hand_over(
    private_server: RunningServer,
) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks, AsyncLocks(private_server.url) as others:
            lock, other = locks.lock("a"), others.lock("a")
            life = await life_of(lock.acquire)
            slowest = 0.0
            for moment in sixty_moments(6 * life):
                held = await other.acquire()
                task = asyncio.create_task(lock.acquire())
                while waiting(private_server, "a") == 0:
                    await asyncio.sleep(0)
                next_one = asyncio.create_task(other.acquire())
                while waiting(private_server, "a") == 1:
                    await asyncio.sleep(0)
                releasing = asyncio.create_task(held.release())
                await moment()
                started = time.monotonic()
                await cancelled(task)
                lease = await next_one
                slowest = max(slowest, time.monotonic() - started)
                await lease.release()
                await releasing
            assert slowest < 0.25, "half of a claim window: a waiter waited for one that had gone"

    asyncio.run(main())
    tidied(private_server)


@pytest.mark.parametrize("contended", [False, True], ids=["free", "contended"])
def test_a_second_cancel_during_the_undo_stops_nothing(
    private_server: RunningServer, proxy: Proxy, contended: bool
) -> None:
    load_scripts(private_server)

    async def main() -> None:
        async with AsyncLocks(proxy.url) as locks:
            await (await locks.lock("warm").acquire()).release()
            held = witness.lock("a").acquire() if contended else None
            first, undo = proxy.hold_reply(asks(script.ATTEMPT)), proxy.hold_reply(asks(script.WITHDRAW))
            task = asyncio.create_task(locks.lock("a").acquire())
            await asyncio.to_thread(first.wait)
            if contended:
                first.release()
                await asyncio.to_thread(wait_for, lambda: waiting(private_server, "a") == 1)
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.to_thread(proxy.wait_for_request, asks(script.WITHDRAW))
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
                assert not task.done(), "the undo is seen through"
            first.release()
            await asyncio.to_thread(undo.wait)
            undo.release()
            with pytest.raises(asyncio.CancelledError):
                await task
            if held is not None:
                held.release()
            free_at_once(witness, "a")

    with Locks(private_server.url) as witness:
        asyncio.run(main())
        tidied(private_server)


def test_a_cancelled_acquire_on_a_silent_server_ends_within_the_second_of_its_undo(
    private_server: RunningServer,
) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            await life_of(locks.lock("a").acquire)
            private_server.pause()
            task = asyncio.create_task(locks.lock("a").acquire())
            await asyncio.sleep(0.01)
            started = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            took = time.monotonic() - started
            private_server.resume()
            assert took < 1.3
            await life_of(locks.lock("a", wait=2).acquire)

    asyncio.run(main())
    tidied(private_server)


def test_a_detach_that_is_cancelled_too_late_leaves_a_lease_that_knows_when_it_ends(
    private_server: RunningServer,
) -> None:
    """The server has granted, and the loop has not read the reply: the lease continues, and is renewed."""

    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            lease = await locks.lock("a", ttl=3).acquire()
            detach = asyncio.create_task(lease.detach(60))
            await asyncio.sleep(0)
            wait_for(lambda: int(private_server.command("PTTL", "ht:{a}")) > 30_000)  # the loop reads no reply
            detach.cancel()
            with pytest.raises(asyncio.CancelledError):
                await detach
            lease.check()
            assert lease.remaining() > 0
            private_server.flushall()
            assert await lease.wait_lost(10)
            with pytest.raises(LeaseLost):
                lease.check()

    asyncio.run(main())


def test_an_adoption_that_is_cancelled_leaves_the_lock_free_or_to_be_adopted(private_server: RunningServer) -> None:
    async def main() -> None:
        with Proxy(private_server.port) as proxy:
            async with AsyncLocks(proxy.url) as locks:
                text = await (await locks.lock("a").acquire()).detach()
                held = proxy.hold_reply(asks(script.ADOPT))
                adopt = asyncio.create_task(locks.adopt(text))
                await asyncio.to_thread(held.wait)  # the server has done it
                adopt.cancel()
                held.release()
                with pytest.raises(asyncio.CancelledError):
                    await adopt

    load_scripts(private_server)
    with Locks(private_server.url) as witness:
        asyncio.run(main())
        free_at_once(witness, "a")
        tidied(private_server)
