"""Blocks that their own task will not leave: it left a generator behind, it has ended, or its loop was closed."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks
from tests.faults import ending
from tests.faults.clients import tidy, waiting
from tests.support.processes import StartChild, wait_for
from tests.support.servers import RunningServer


async def pages(lock: Any) -> AsyncGenerator[int]:
    async with lock:
        yield 1
        yield 2


async def first_of(found: AsyncGenerator[int]) -> int:
    async for each in found:
        return each
    raise AssertionError("there is none")


def exclusive(locks: AsyncLocks) -> Any:
    return locks.lock("a")


def reading(locks: AsyncLocks) -> Any:
    return locks.rwlock("a").read()


def permit(locks: AsyncLocks) -> Any:
    return locks.semaphore("a", permits=1)


def several(locks: AsyncLocks) -> Any:
    return locks.multi("a", "b")


@pytest.mark.parametrize("where", ["this task", "a task that ends"])
@pytest.mark.parametrize("kind", [exclusive, reading, permit, several])
def test_a_generator_that_nobody_has_any_more_gives_its_lock_back(
    private_server: RunningServer, kind: Callable[[AsyncLocks], Any], where: str
) -> None:
    complaints: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(str(said.get("exception"))))
        async with AsyncLocks(private_server.url) as locks:
            look = first_of(pages(kind(locks)))
            assert await (look if where == "this task" else asyncio.create_task(look)) == 1
            del look
            gc.collect()
            other = locks.lock("a") if kind is reading else kind(locks)
            lease = await asyncio.create_task(other.acquire(wait=10))  # long before its ttl
            await lease.release()

    asyncio.run(main())
    gc.collect()
    assert len(complaints) == 1
    assert "left in another thread or task" in complaints[0]
    tidy(private_server)


def test_a_block_whose_task_has_ended_is_given_back_by_the_task_that_ends_the_block(
    private_server: RunningServer,
) -> None:
    """As fixtures of tests do: begun in one task, ended in another."""

    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            found = pages(locks.lock("a"))
            assert await asyncio.create_task(first_of(found)) == 1
            assert await locks.lock("a").locked()
            with pytest.raises(RuntimeError, match="left in another thread or task"):
                [each async for each in found]
            assert not await locks.lock("a").locked()

    asyncio.run(main())
    tidy(private_server)


def test_of_several_permits_those_of_ended_tasks_are_kept_no_more(private_server: RunningServer) -> None:
    """It is unknown which of them the closed generator was in."""

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: None)
        async with AsyncLocks(private_server.url) as locks:
            permits = locks.semaphore("a", permits=3, ttl=2)
            async with permits as lease:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ResourceWarning)
                    for _ in range(2):
                        await asyncio.create_task(first_of(pages(permits)))
                    gc.collect()
                    await (await permits.acquire(2, wait=10)).release()
                lease.check()

    asyncio.run(main())
    tidy(private_server)


def test_a_holder_or_waiter_on_a_loop_that_was_closed_is_there_no_more(
    private_server: RunningServer, start_child: StartChild
) -> None:
    child = start_child(ending.with_a_closed_loop, private_server.url)
    child.expect("closed", within=20)
    with Locks(private_server.url) as witness:
        wait_for(lambda: not witness.lock("held").locked(), what="the block to be given up")
    wait_for(lambda: waiting(private_server, "wanted") == 0, what="the waiter to leave the line")
    child.send("enough")
    assert child.wait(10) == 0, child.errors


def test_a_quorum_forgets_a_holder_on_a_loop_that_was_closed(nodes: Any, start_child: StartChild) -> None:
    child = start_child(ending.with_a_closed_loop, *nodes.urls)
    child.expect("closed", within=20)
    with Locks(nodes.urls) as witness:
        wait_for(lambda: not witness.lock("held").locked(), what="the block to be given up")
    child.send("enough")
    assert child.wait(10) == 0, child.errors
