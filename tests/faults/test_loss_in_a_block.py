"""A lost lease cancels its block's body by the rules of `asyncio.timeout`: once, inside, never after. That holds for
`async with lock` and for `async with lease`, and every test here plays with both."""

# ruff: noqa: PT012 -- it is the whole block that raises

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from holdtight import AsyncLease, AsyncLocks, LeaseLost, LossReason
from holdtight.grants.lease import BaseLease
from tests.support.lease_blocks import LeaseLocks
from tests.support.servers import RunningServer


class Entered:
    by = "lock"


@pytest.fixture(params=["lock", "lease"], autouse=True)
def _entered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Entered, "by", request.param)


def run(server: RunningServer, test: Callable[[AsyncLocks], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncLocks(server.url) as locks:
            await test(locks if Entered.by == "lock" else cast(AsyncLocks, LeaseLocks(locks)))

    asyncio.run(main())


def lose(lease: BaseLease) -> None:
    """Loses the lease as the keeper does, from another thread than the loop's."""
    thread = threading.Thread(target=lease.tenure.lose, args=(LossReason.EXPIRED,))
    thread.start()
    thread.join()


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def nothing_comes_after() -> None:
    """A cancellation that was late would come at one of these."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert this_task().cancelling() == 0


def test_loss_races_the_end_of_the_block_a_thousand_times(private_server: RunningServer) -> None:
    chance = random.Random(1)
    outcomes: dict[str, int] = {"lost": 0, "not lost": 0}
    leases: list[BaseLease] = []
    given, over = threading.Semaphore(0), threading.Event()

    def loser() -> None:
        while given.acquire() and not over.is_set():
            end = time.perf_counter() + chance.uniform(0, 0.0004)
            while time.perf_counter() < end:
                pass
            leases.pop().tenure.lose(LossReason.EXPIRED)

    async def rounds(locks: AsyncLocks) -> None:
        for number in range(20_000):  # on a busy machine one of the two is late more often
            if number >= 1000 and min(outcomes.values()) >= 20:
                return
            try:
                async with locks.lock("a", ttl=5) as lease:
                    leases.append(lease)
                    given.release()
                    for _ in range(chance.randrange(12)):
                        await asyncio.sleep(0)
            except LeaseLost:
                outcomes["lost"] += 1
            else:
                outcomes["not lost"] += 1
            await nothing_comes_after()

    thread = threading.Thread(target=loser)
    thread.start()
    try:
        run(private_server, rounds)
    finally:
        over.set()
        given.release()
        thread.join()
    assert min(outcomes.values()) >= 20, f"no race: {outcomes}"


def test_emptied_servers_race_the_end_of_the_block(private_server: RunningServer) -> None:
    chance = random.Random(2)

    async def rounds(locks: AsyncLocks) -> None:
        lost = granted_anew = 0
        with private_server.connect() as raw:
            while lost < 60:
                asked = time.monotonic()
                try:
                    async with locks.lock("a", ttl=0.1) as lease:
                        granted_in = time.monotonic() - asked
                        raw.call("FLUSHALL")
                        # The renewal that finds out is due at a third of the ttl: around that moment.
                        end = time.monotonic() + chance.uniform(0.03, 0.045)
                        while time.monotonic() < end:
                            await asyncio.sleep(0)
                except LeaseLost:
                    lost += 1
                    # Unreachable, if the machine was busy until the ttl had run out.
                    assert lease.reason in (LossReason.EXPIRED, LossReason.UNREACHABLE, None)
                else:
                    # An attempt that was given up, nearly a ttl after it was sent, may arrive after the FLUSHALL.
                    granted_anew += 1
                    assert granted_in >= 0.09, f"a release of what is gone has to say so: {lease!r}, {granted_in:.3f} s"
                    assert granted_anew < 60, "no server is as slow as that"
                await nothing_comes_after()

    run(private_server, rounds)


def test_a_lost_lease_cancels_the_body_and_comes_out_as_lease_lost(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.raises(LeaseLost) as raised:
            async with locks.lock("a") as lease:
                lose(lease)
                await asyncio.Event().wait()
        assert isinstance(raised.value.__cause__, asyncio.CancelledError)
        await nothing_comes_after()

    run(private_server, test)


def test_an_outer_cancellation_goes_through_and_the_lock_is_released(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        entered = asyncio.Event()

        async def body() -> None:
            async with locks.lock("a"):
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await entered.wait()
        task.cancel("from outside")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert not await locks.lock("a").locked()

    run(private_server, test)


def test_an_outer_cancellation_that_meets_a_loss_goes_through(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        entered = asyncio.Event()
        leases = []

        async def body() -> None:
            async with locks.lock("a") as lease:
                leases.append(lease)
                entered.set()
                await asyncio.Event().wait()

        for outer_first in (True, False):
            entered.clear()
            task = asyncio.create_task(body())
            await entered.wait()
            if outer_first:
                task.cancel()
            lose(leases.pop())
            if not outer_first:
                await asyncio.sleep(0)
                task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            except LeaseLost:
                # The block had ended when the outer cancellation came: as with asyncio.timeout.
                assert not outer_first
            else:
                raise AssertionError("both got lost")

    run(private_server, test)


def test_a_timeout_around_the_block_is_a_timeout(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), locks.lock("a"):
                await asyncio.Event().wait()
        await nothing_comes_after()
        assert not await locks.lock("a").locked()

    run(private_server, test)


def test_a_loss_under_a_timeout_around_the_block_is_a_loss(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.raises(LeaseLost):
            async with asyncio.timeout(5), locks.lock("a") as lease:
                lose(lease)
                await asyncio.Event().wait()
        await nothing_comes_after()

    run(private_server, test)


def test_a_timeout_inside_the_block_stays_inside(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        async with locks.lock("a") as lease:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await asyncio.Event().wait()
            lease.check()
            await asyncio.sleep(0)
        await nothing_comes_after()

    run(private_server, test)


def test_a_loss_inside_a_timeout_inside_the_block_is_a_loss(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.raises(LeaseLost):
            async with locks.lock("a") as lease:
                async with asyncio.timeout(5):
                    lose(lease)
                    await asyncio.Event().wait()
        await nothing_comes_after()

    run(private_server, test)


def test_a_loss_and_a_timeout_at_once_leave_no_cancellation_behind(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        for _ in range(20):
            with pytest.raises((LeaseLost, TimeoutError)):
                async with asyncio.timeout(0.005), locks.lock("a") as lease:
                    await asyncio.sleep(0.0045)
                    lose(lease)
                    await asyncio.Event().wait()
            await nothing_comes_after()

    run(private_server, test)


def test_a_task_group_around_the_block_gets_the_loss_as_an_error(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        async def sibling() -> None:
            await asyncio.Event().wait()

        async def body() -> None:
            async with locks.lock("a") as lease:
                lose(lease)
                await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                other = group.create_task(sibling())
                group.create_task(body())
        assert raised.group_contains(LeaseLost)
        assert other.cancelled()
        for _ in range(3):  # Python 3.11's TaskGroup leaves its own cancelling() behind, whatever the error
            await asyncio.sleep(0)

    run(private_server, test)


def test_a_task_group_inside_the_block_is_cancelled_with_it(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        async def worker() -> None:
            await asyncio.Event().wait()

        with pytest.raises(LeaseLost):
            async with locks.lock("a") as lease, asyncio.TaskGroup() as group:
                workers = [group.create_task(worker()) for _ in range(3)]
                await asyncio.sleep(0)
                lose(lease)
        assert all(each.cancelled() for each in workers)
        await nothing_comes_after()

    run(private_server, test)


def test_a_body_that_swallows_the_cancellation_still_hears_of_the_loss(private_server: RunningServer) -> None:
    async def test(locks: AsyncLocks) -> None:
        went_on = False
        with pytest.raises(LeaseLost):
            async with locks.lock("a") as lease:
                lose(lease)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    went_on = True
                await asyncio.sleep(0)  # cancelled once, not again and again
        assert went_on
        await nothing_comes_after()

    run(private_server, test)


def test_a_body_that_raises_after_the_loss_keeps_its_error_with_the_loss_as_a_note(
    private_server: RunningServer,
) -> None:
    async def test(locks: AsyncLocks) -> None:
        with pytest.raises(ZeroDivisionError) as raised:
            async with locks.lock("a") as lease:
                lose(lease)
                try:
                    await asyncio.Event().wait()
                finally:
                    _ = 1 / 0
        assert any("lost" in note for note in raised.value.__notes__)
        await nothing_comes_after()

    run(private_server, test)


def test_a_lease_that_another_loop_acquired_cancels_the_body_on_its_own_loop(private_server: RunningServer) -> None:
    locks = AsyncLocks(private_server.url)

    async def acquire() -> AsyncLease:
        return await locks.lock("a", ttl=20).acquire()

    async def use(lease: AsyncLease) -> None:
        with pytest.raises(LeaseLost):
            async with lease:
                lose(lease)
                await asyncio.wait_for(asyncio.Event().wait(), 10)
        await nothing_comes_after()
        await locks.aclose()

    asyncio.run(use(asyncio.run(acquire())))
