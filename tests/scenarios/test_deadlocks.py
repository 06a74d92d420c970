"""Holders of one lock that wait for another: a deadlock is found and reported, one gives up, the rest go on."""

import os
import pickle
import socket
from collections.abc import Sequence

import pytest

from holdtight import AsyncLock, AsyncLocks, DeadlockDetected, LockTimeout
from holdtight.events import DeadlockFound, Event, Waited
from holdtight.stores.redis.wait_records import PUBLISHED_MS
from tests.scenarios.colours import Actor
from tests.scenarios.world import Stopwatch, World
from tests.support.clusters import WholeCluster

pytestmark = pytest.mark.played(kind=["exclusive"])
"""These scenarios need several locks; other files cover the other kinds."""

SOON = 0.1
"""Seconds after which a waiter searches: long enough to be in line, short enough for a test."""


class Circle:
    """That many actors each hold a lock and wait for the next one's."""

    def __init__(self, world: World, locks: Sequence[AsyncLock]) -> None:
        self.world, self.locks = world, locks
        self.inside = 0
        self.served: list[str] = []

    async def hold_one_and_wait_for_the_next(self, number: int) -> DeadlockDetected | None:
        mine, others = self.locks[number], self.locks[(number + 1) % len(self.locks)]
        try:
            async with mine:
                self.inside += 1
                await self.world.until(lambda: self.inside == len(self.locks))
                async with others:
                    self.served.append(others.name)
        except DeadlockDetected as error:
            return error
        return None

    def close(self) -> list[Actor[DeadlockDetected | None]]:
        return [self.world.start(self.hold_one_and_wait_for_the_next(number)) for number in range(len(self.locks))]

    async def victim(self) -> DeadlockDetected:
        """Exactly one gives up; all others are served, and nothing is left."""
        errors = [error for actor in self.close() if (error := await actor.result()) is not None]
        (error,) = errors
        assert error.name is not None
        assert sorted([*self.served, error.name]) == sorted(lock.name for lock in self.locks)
        for lock in self.locks:
            info = await lock.inspect()
            assert not info.locked
            assert info.waiters == ()
        await nothing_stays_published(self.world)
        return error


async def test_a_circle_through_a_reader_is_found(world: World) -> None:
    """The writer waits for every reader; one of them waits for the writer."""
    client = detecting(world)
    book, desk = client.rwlock("book", ttl=20), client.lock("desk", ttl=20)
    other = await book.read().acquire()  # one more reader, which is in no circle
    inside: list[str] = []

    async def read_then_take_the_desk() -> DeadlockDetected | None:
        return await take(book.read(), desk)

    async def take_the_desk_then_write() -> DeadlockDetected | None:
        return await take(desk, book.write())

    async def take(first: AsyncLock, second: AsyncLock) -> DeadlockDetected | None:
        try:
            async with first:
                inside.append(first.name)
                await world.until(lambda: len(inside) == 2)
                async with second:
                    pass
        except DeadlockDetected as error:
            return error
        return None

    actors = [world.start(read_then_take_the_desk()), world.start(take_the_desk_then_write())]
    await world.until(lambda: any(actor.done for actor in actors))
    await other.release()
    (error,) = [error for actor in actors if (error := await actor.result()) is not None]
    assert set(error.cycle) == {"book", "desk"}
    await nothing_stays_published(world)


async def test_a_waiter_for_one_of_many_permits_is_in_no_circle(world: World) -> None:
    client = detecting(world)
    gate, desk = client.semaphore("gate", permits=2, ttl=20), client.lock("desk", ttl=20)
    other = await gate.acquire()
    async with gate:
        waiter = world.start(_hold_and_wait(desk, gate))
        await world.in_line(gate, 1)
        with pytest.raises(LockTimeout):
            await desk.acquire(wait=5 * SOON)
    await waiter.result()
    await other.release()
    assert client.deadlocks.found == 0


async def _hold_and_wait(first: AsyncLock, second: AsyncLock) -> None:
    async with first, second:
        pass


async def nothing_stays_published(world: World) -> None:
    """On a cluster the keeper withdraws what lies on other servers. All of it would expire later than that."""

    def nothing() -> bool:
        return not world.server.keys("ht:waits:*")

    server: object = world.server
    if isinstance(server, WholeCluster):
        await world.until(nothing, within=PUBLISHED_MS / 2000, what="published waits to be withdrawn")
    assert nothing()


def detecting(world: World, **options: object) -> AsyncLocks:
    return world.locks(deadlock_after=SOON, **options)


@pytest.mark.parametrize("members", [2, 3, 10])
async def test_exactly_one_of_a_circle_gives_up_and_the_others_get_their_locks(world: World, members: int) -> None:
    clock = Stopwatch()
    client = detecting(world)
    error = await Circle(world, [client.lock(f"lock {at}") for at in range(members)]).victim()
    assert len(error.members) == members
    assert set(error.cycle) == {f"lock {at}" for at in range(members)}
    assert error.cycle[0] == error.cycle[-1]
    assert client.deadlocks.found == 1
    assert SOON < clock.seconds < 10


async def test_members_of_several_clients_find_each_other(world: World) -> None:
    locks = [detecting(world, label=f"label {at}").lock(f"lock {at}") for at in range(3)]
    error = await Circle(world, locks).victim()
    assert {member.label for member in error.members} == {"label 1", "label 2", "label 0"}


@pytest.mark.real_server("the memory store has no connection on which nobody can be rung")
async def test_without_resp3_a_deadlock_is_found_as_well(world: World) -> None:
    polling = detecting(world, target=world.server.url + "?protocol=2")
    await Circle(world, [polling.lock("a"), detecting(world).lock("b"), polling.lock("c")]).victim()


async def test_the_error_says_who_holds_what_and_waits_for_what(world: World) -> None:
    client = detecting(world, label="billing")
    error = await Circle(world, [client.lock("a"), client.lock("b")]).victim()
    assert (error.code, error.name) == ("DEADLOCK", error.members[0].waits_for)
    assert error.waited is not None
    assert SOON <= error.waited < 10
    assert error.cycle in (("a", "b", "a"), ("b", "a", "b"))
    assert error.cycle == (error.members[0].holds, error.members[1].holds, error.members[0].holds)
    place = f"{socket.gethostname()}, pid {os.getpid()}, {'thread' if world.blocking else 'task'} "
    lines = [line for line in str(error).splitlines() if " holds " in line]
    assert len(lines) == 2
    for line, member in zip(lines, error.members, strict=True):
        assert line.startswith("  " + place)
        assert f"(billing) holds {member.holds!r} and waits for {member.waits_for!r}" in line
    assert error.holder is not None
    assert error.holder.owner == error.members[1].owner
    came = pickle.loads(pickle.dumps(error))
    assert (str(came), came.cycle, came.members) == (str(error), error.cycle, error.members)


async def test_it_is_told_as_an_event_too(world: World) -> None:
    client = detecting(world)
    heard = world.listen(client)
    error = await Circle(world, [client.lock("a"), client.lock("b")]).victim()
    (found,) = [event for event in heard if isinstance(event, DeadlockFound)]
    assert (found.name, found.owner, found.cycle) == (error.name, error.members[0].waiter, error.cycle)
    assert found.waited == pytest.approx(error.waited or 0, abs=1)
    ended: list[Event] = [event for event in heard if isinstance(event, Waited) and not event.acquired]
    assert [event.owner for event in ended] == [found.owner]


async def test_a_member_that_gave_up_can_try_again(world: World) -> None:
    client = detecting(world)

    async def stubborn(mine: str, others: str) -> int:
        for tries in range(1, 100):
            try:
                async with client.lock(mine):
                    await world.sleep(0.01)
                    async with client.lock(others):
                        return tries
            except DeadlockDetected:
                continue
        raise AssertionError("never")

    actors = [world.start(stubborn("a", "b")), world.start(stubborn("b", "a"))]
    for actor in actors:
        await actor.result()
    await nothing_stays_published(world)


async def test_a_circle_is_closed_by_the_last_to_wait_and_by_any_of_the_locks_in_hand(world: World) -> None:
    """One holds two locks; the other waits for the one that was taken first."""
    client = detecting(world)
    ready = False

    async def one() -> str:
        nonlocal ready
        try:
            async with client.lock("outer"), client.lock("inner"):
                ready = True
                await world.in_line(client.lock("outer"), 1)
                async with client.lock("b"):
                    return "served"
        except DeadlockDetected:
            return "deadlock"

    async def other() -> str:
        try:
            async with client.lock("b"):
                await world.until(lambda: ready)
                async with client.lock("outer"):
                    return "served"
        except DeadlockDetected:
            return "deadlock"

    actors = [world.start(one()), world.start(other())]
    assert sorted([await actor.result() for actor in actors]) == ["deadlock", "served"]
    await nothing_stays_published(world)


async def test_a_name_that_one_holds_by_way_of_another_client_is_a_circle_of_one(world: World) -> None:
    async with world.lock("a"):
        with pytest.raises(DeadlockDetected) as caught:
            await detecting(world).lock("a").acquire()
        assert caught.value.cycle == ("a", "a")
        assert len((await world.lock("a").inspect()).waiters) == 0
    await nothing_stays_published(world)


# No deadlock.


async def hold_and_wait(world: World, client: AsyncLocks, mine: str, others: str, wait: float) -> str:
    """Holds one by hand, not in a block, and waits for the other."""
    lease = await client.lock(mine).acquire()
    try:
        await world.until(lambda: len(world.server.keys("ht:{?}")) == 2)
        return await wait_for(client, others, wait)
    finally:
        await lease.release()


async def wait_for(client: AsyncLocks, name: str, wait: float) -> str:
    try:
        await (await client.lock(name).acquire(wait=wait)).release()
    except LockTimeout:
        return "timeout"
    return "served"


async def test_leases_outside_of_blocks_do_not_count(world: World) -> None:
    """Any thread or task may release them."""
    client = detecting(world)
    actors = [
        world.start(hold_and_wait(world, client, "a", "b", 0.6)),
        world.start(hold_and_wait(world, client, "b", "a", 30)),
    ]
    assert [await actor.result() for actor in actors] == ["timeout", "served"]
    assert client.deadlocks.runs == 0


async def test_what_hold_holds_does_not_count(world: World) -> None:
    client = detecting(world)

    async def one() -> str:
        async with client.lock("a").hold():
            await world.until(lambda: len(world.server.keys("ht:{?}")) == 2)
            return await wait_for(client, "b", 0.6)

    async def other() -> str:
        async with client.lock("b"):
            await world.until(lambda: len(world.server.keys("ht:{?}")) == 2)
            return await wait_for(client, "a", 30)

    actors = [world.start(one()), world.start(other())]
    assert [await actor.result() for actor in actors] == ["timeout", "served"]
    assert client.deadlocks.found == 0


async def test_a_waiter_that_holds_nothing_asks_nothing(world: World) -> None:
    client = world.locks(deadlock_after=0)
    lease = await world.lock("a").acquire()
    assert await wait_for(client, "a", 0.5) == "timeout"
    await lease.release()
    assert client.deadlocks.runs == 0
    assert world.server.keys("ht:waits:*") == []


async def test_try_acquire_and_no_wait_never_look(world: World) -> None:
    client = world.locks(deadlock_after=0)

    async def other() -> None:
        async with client.lock("b"), client.lock("a"):
            pass

    async with client.lock("a"):
        actor = world.start(other())
        await world.in_line(client.lock("a"), 1)
        await world.until(lambda: client.deadlocks.runs >= 1)
        before = client.deadlocks.runs, client.deadlocks.found
        for _ in range(10):
            assert await client.lock("b").try_acquire() is None
            with pytest.raises(LockTimeout):
                await client.lock("b").acquire(wait=0)
        assert client.deadlocks.found == before[1] == 0
    await actor.result()


async def test_a_circle_that_ends_by_itself_in_time_is_a_timeout(world: World) -> None:
    client = world.locks(deadlock_after=20)
    inside = 0

    async def one(mine: str, others: str, wait: float) -> str:
        nonlocal inside
        async with client.lock(mine):
            inside += 1
            await world.until(lambda: inside == 2)
            return await wait_for(client, others, wait)

    actors = [world.start(one("a", "b", 0.3)), world.start(one("b", "a", 30))]
    assert [await actor.result() for actor in actors] == ["timeout", "served"]
    assert client.deadlocks.runs == 0


async def test_a_long_wait_without_a_circle_goes_on(world: World) -> None:
    """It searches repeatedly, keeps its note published, and gets the lock."""
    client = detecting(world)
    lease = await world.lock("b").acquire()

    async def patient() -> None:
        async with client.lock("a"), client.lock("b"):
            pass

    actor = world.start(patient())
    await world.until(lambda: client.deadlocks.runs >= 5)
    (key,) = world.server.keys("ht:waits:*")
    assert 0 < world.server.command("PTTL", key) <= 10_000
    await lease.release()
    await actor.result()
    await nothing_stays_published(world)
    assert (client.deadlocks.found, client.deadlocks.failures) == (0, 0)
