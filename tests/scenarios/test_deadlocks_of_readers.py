"""Deadlocks through readers, and writers that wait for all of them; and permits, which are not followed."""

from collections.abc import Callable
from typing import Any

import pytest

from holdtight import AsyncLocks, DeadlockDetected, LockTimeout
from tests.scenarios.test_deadlocks import detecting, nothing_stays_published
from tests.scenarios.world import World

pytestmark = pytest.mark.played(kind=["exclusive"])


class Play:
    """Actors that each hold one lock in a block and then, when all of them do, wait for another."""

    def __init__(self, world: World, client: AsyncLocks, members: int) -> None:
        self.world, self.client, self.members = world, client, members
        self.inside = 0

    async def hold_and_wait(self, first: Any, second: Any, before: Callable[[], Any] = lambda: True) -> str:
        try:
            async with first:
                self.inside += 1
                await self.world.until(lambda: self.inside == self.members)
                await self.world.until(before)
                async with second:
                    return "served"
        except DeadlockDetected as error:
            return " ".join(error.cycle)
        except LockTimeout:
            return "timeout"


async def test_a_writer_waits_for_every_reader_and_one_of_them_for_it(world: World) -> None:
    """Other readers are no members: the circle is found while they read on."""
    client = detecting(world)
    book, play = client.rwlock("book"), Play(world, client, 2)
    innocents = [await book.read().acquire() for _ in range(3)]
    reader = world.start(play.hold_and_wait(book.read(), client.lock("pen")))
    writer = world.start(play.hold_and_wait(client.lock("pen"), book.write()))
    await world.until(lambda: client.deadlocks.found == 1)
    for lease in innocents:
        lease.check()
        await lease.release()
    outcomes = sorted([await reader.result(), await writer.result()])
    assert outcomes in (["book pen book", "served"], ["pen book pen", "served"])
    await nothing_stays_published(world)
    assert not await book.locked()


async def test_a_reader_behind_a_waiting_writer_waits_for_the_holding_readers(world: World) -> None:
    """One reads and waits for a lock; its holder wants to read too, but a writer came first."""
    client = detecting(world)
    book, play = client.rwlock("book"), Play(world, client, 2)

    async def write() -> str:
        async with book.write():
            return "written"

    async def writer_waits() -> bool:
        return len((await book.inspect()).waiters) >= 1

    reader = world.start(play.hold_and_wait(book.read(), client.lock("ink"), writer_waits))
    other = world.start(play.hold_and_wait(client.lock("ink"), book.read(), writer_waits))
    await world.until(lambda: play.inside == 2)
    writer = world.start(write())
    outcomes = sorted([await reader.result(), await other.result()])
    assert outcomes in (["book ink book", "served"], ["ink book ink", "served"])
    assert await writer.result() == "written"
    assert client.deadlocks.found == 1
    await nothing_stays_published(world)


async def test_readers_that_wait_for_each_others_locks_are_a_circle_too(world: World) -> None:
    client = detecting(world)
    one, other, play = client.rwlock("one"), client.rwlock("other"), Play(world, client, 2)
    actors = [
        world.start(play.hold_and_wait(one.read(), other.write())),
        world.start(play.hold_and_wait(other.read(), one.write())),
    ]
    outcomes = sorted([await actor.result() for actor in actors])
    assert outcomes in (["one other one", "served"], ["other one other", "served"])
    await nothing_stays_published(world)


async def test_permits_are_not_followed(world: World) -> None:
    """Any of their holders may free a permit: only the waits' limits end a circle through them."""
    client = detecting(world)
    seats, play = client.semaphore("seats", permits=1), Play(world, client, 2)
    actors = [
        world.start(play.hold_and_wait(seats, client.lock("b", wait=0.6))),
        world.start(play.hold_and_wait(client.lock("b"), seats)),
    ]
    assert [await actor.result() for actor in actors] == ["timeout", "served"]
    assert client.deadlocks.found == 0
    assert client.deadlocks.runs > 0
    await nothing_stays_published(world)
