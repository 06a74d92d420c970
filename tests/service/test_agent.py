"""aio/agent.py: acting for owners from outside, which may be asked for again elsewhere."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdtight import AsyncLocks, Kind, LeaseLost, LockTimeout, LossReason
from holdtight.aio.agent import Agent, Held
from holdtight.base.values import Claim, owner_text
from holdtight.core.contend import Kept
from tests.support.memory import MEMORY, MemoryStore
from tests.support.servers import FLAVOURS, RunningServer

pytestmark = pytest.mark.parametrize("shared_server", [FLAVOURS[0], MEMORY], ids=repr, indirect=True, scope="session")

Place = RunningServer | MemoryStore
OWNER = b"from-out" + b"side-0123456789a"
TTL = 30.0


def claim(name: str = "name", kind: Kind = Kind.EXCLUSIVE, n: int = 1, permits: int = 0) -> Claim:
    return Claim(name, TTL, None, kind, n, permits)


def held(fence: int, owner: bytes = OWNER, kind: Kind = Kind.EXCLUSIVE, name: str = "name") -> Held:
    return Held(name, kind, 1, owner, fence)


@asynccontextmanager
async def two_agents(place: Place) -> AsyncIterator[tuple[Agent, Agent]]:
    async with AsyncLocks(place.url) as one, AsyncLocks(place.url) as two:
        yield Agent(one), Agent(two)


async def until(condition: Callable[[], Awaitable[bool]], within: float = 10) -> None:
    async with asyncio.timeout(within):
        while not await condition():
            await asyncio.sleep(0.01)


def play(scene: Callable[[Agent, Agent], Awaitable[None]], place: Place) -> None:
    async def main() -> None:
        async with two_agents(place) as (one, two):
            await scene(one, two)

    asyncio.run(main())


async def holders(agent: Agent) -> list[tuple[str, int | None]]:
    info = await agent.locks.inspect("name")
    return [(each.owner, each.fence) for each in info.holders]


@pytest.mark.parametrize("kind", [Kind.EXCLUSIVE, Kind.SHARED, Kind.PERMITS])
def test_the_same_owner_gets_the_same_grant_by_way_of_another_client(place: Place, kind: Kind) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        wish = claim(kind=kind, permits=1 if kind is Kind.PERMITS else 0)
        first = await one.take(wish, OWNER)
        again = await two.take(wish, OWNER)
        assert first.fence == again.fence
        assert await two.renew(held(first.fence, kind=kind), TTL) is not None
        assert await two.release(held(first.fence, kind=kind)) is None
        assert not (await one.locks.inspect("name")).locked

    play(scene, place)


@pytest.mark.parametrize("kind", [Kind.EXCLUSIVE, Kind.SHARED])
def test_a_fence_of_before_neither_renews_nor_releases(place: Place, kind: Kind) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        old = await one.take(claim(kind=kind), OWNER)
        assert await one.release(held(old.fence, kind=kind)) is None
        new = await two.take(claim(kind=kind), OWNER)
        assert await one.renew(held(old.fence, kind=kind), TTL) is LossReason.EXPIRED
        assert await one.release(held(old.fence, kind=kind)) is LossReason.EXPIRED
        assert await holders(one) == [(owner_text(OWNER), new.fence)]

    play(scene, place)


def test_a_forced_release_is_told_to_the_grant_that_it_ended_only(place: Place) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        taken = await one.take(claim(), OWNER)
        await two.locks.force_release("name", reason="test")
        assert await one.renew(held(taken.fence), TTL) is LossReason.FORCED
        assert await one.release(held(taken.fence)) is LossReason.FORCED
        assert await one.renew(held(taken.fence - 1), TTL) is LossReason.EXPIRED

    play(scene, place)


def test_a_poll_that_is_given_up_leaves_the_line(place: Place) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        await one.take(claim(), b"r" * 24)
        task = asyncio.create_task(one.take(claim(), OWNER, wait=20))
        await until(lambda: waiting(two, 1))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: waiting(two, 0))

    play(scene, place)


async def waiting(agent: Agent, number: int) -> bool:
    return (await agent.locks.inspect("name")).waiting == number


def test_a_poll_that_is_given_up_does_not_end_the_wait_elsewhere(place: Place) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        rival = await one.take(claim(), b"r" * 24)
        here = asyncio.create_task(one.take(claim(), OWNER, wait=20))
        await until(lambda: waiting(two, 1))
        there = asyncio.create_task(two.take(claim(), OWNER, wait=20))
        await asyncio.sleep(0.05)  # its attempt is under way; either order is a fair one
        here.cancel()
        with pytest.raises(asyncio.CancelledError):
            await here
        assert await one.release(held(rival.fence, b"r" * 24)) is None
        assert (await there).fence > rival.fence

    play(scene, place)


def test_a_place_stays_when_the_wait_ends_and_is_taken_up_elsewhere(place: Place) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        rival = await one.take(claim(), b"r" * 24)
        with pytest.raises(Kept) as kept:
            await one.take(claim(), OWNER, wait=1, stay=True)
        assert kept.value.queued.position == 1
        later = asyncio.create_task(two.take(claim(), b"later".ljust(24), wait=20))
        await until(lambda: waiting(two, 2))
        with pytest.raises(Kept):
            await two.take(claim(), OWNER, stay=True)
        mine = asyncio.create_task(two.take(claim(), OWNER, wait=20))
        await asyncio.sleep(0.05)
        assert await one.release(held(rival.fence, b"r" * 24)) is None
        taken = await mine
        assert not later.done()
        assert await two.release(held(taken.fence)) is None
        assert (await later).fence > taken.fence

    play(scene, place)


def test_a_wait_that_ends_leaves_the_line_and_names_the_holder(place: Place) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        await one.take(claim(), b"r" * 24)
        with pytest.raises(LockTimeout) as raised:
            await two.take(claim(), OWNER, wait=1)
        assert raised.value.holder is not None
        assert raised.value.holder.owner == owner_text(b"r" * 24)
        assert await waiting(one, 0)

    play(scene, place)


def test_a_writer_becomes_a_reader_and_may_say_so_twice(place: Place) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        taken = await one.take(claim(), OWNER)
        reading = await one.downgrade(held(taken.fence), TTL, None)
        assert reading.fence > taken.fence
        assert (await two.downgrade(held(taken.fence), TTL, None)).fence == reading.fence
        with pytest.raises(LeaseLost):
            await two.downgrade(held(reading.fence), TTL, None)
        assert await two.release(held(reading.fence, kind=Kind.SHARED)) is None

    play(scene, place)


def test_the_library_detaches_and_the_agent_adopts(place: Place) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        lease = await one.locks.lock("name").acquire()
        text = await lease.detach()
        from holdtight.grants.lease import Detached

        old = Detached.read(text).owner
        taken = await two.adopt(claim(), old, OWNER)
        assert taken.fence > lease.fence
        assert (await one.adopt(claim(), old, OWNER)).fence == taken.fence
        with pytest.raises(LeaseLost):
            await one.adopt(claim(), old, b"x" * 24)

    play(scene, place)


# Interleavings

RIVAL = b"rival".ljust(24)


class Told:
    """What the owner's client was told, whichever way it asked."""

    def __init__(self) -> None:
        self.fence = 0
        self.old: list[int] = []
        self.way: Agent | None = None
        """By which agent it waits, as far as it was told."""


async def interleave(agents: tuple[Agent, Agent], chance: random.Random, name: str) -> None:
    told, rival = Told(), 0
    for _ in range(chance.randint(4, 14)):
        agent = chance.choice(agents)
        verb = chance.choice(["attempt", "attempt", "leave", "release", "renew", "rival", "rival"])
        answer: Any = None
        if verb == "attempt":
            answer = await perform(agent, "attempt_step", name, now=clock(agent), patience=2.0, queue=True)
            if hasattr(answer, "fence"):
                assert not told.fence or told.fence == answer.fence
                told.fence, told.way = answer.fence, None
            else:
                assert not told.fence, "what the client was told that it has is gone"
                told.way = agent
        elif verb == "leave":
            await request(agent, agent.acting.leave_step(agent.prepared(claim(name)), OWNER))
            if told.way is agent:
                told.way = None
        elif verb == "rival":
            if rival:
                await agent.release(held(rival, RIVAL, name=name))
                rival = 0
            else:
                answer = await perform(agent, "attempt_step", name, RIVAL, now=clock(agent), patience=2.0, queue=False)
                rival = getattr(answer, "fence", 0)
                assert not (rival and told.fence), "two holders"
        else:
            fence = chance.choice([told.fence, *told.old[-1:]]) or 1
            done = await getattr(agent, verb)(*([held(fence, name=name)] + ([TTL] if verb == "renew" else [])))
            right = fence == told.fence
            assert isinstance(done, LossReason) != right, (verb, done)
            if verb == "release" and right:
                told.old.append(told.fence)
                told.fence = 0
        info = await agent.locks.inspect(name)
        owners = {each.owner: each.fence for each in info.holders}
        if told.fence:
            assert owners == {owner_text(OWNER): told.fence}, verb
        if told.way is not None:
            assert owner_text(OWNER) in owners or owner_text(OWNER) in [each.owner for each in info.waiters], verb
        assert set(told.old).isdisjoint(owners.values())


def clock(agent: Agent) -> float:
    return agent.locks.place.clock()


async def request(agent: Agent, step: Any) -> Any:
    transport = agent.locks.transport()
    return await transport.perform(await transport.connect(2.0), step)


async def perform(agent: Agent, what: str, name: str, owner: bytes = OWNER, **how: Any) -> Any:
    return await request(agent, getattr(agent.prepared(claim(name)), what)(owner, **how))


async def interleavings(place: Place, number: int, seed: int) -> None:
    chance = random.Random(seed)
    async with two_agents(place) as agents:
        for at in range(number):
            state = chance.getstate()
            try:
                await interleave(agents, chance, f"name {at}")
            except AssertionError as error:
                raise AssertionError(f"{error}; seed {seed}, interleaving {at}, {hash(state)}") from error


def test_two_ways_of_one_owner_never_undo_each_other(place: Place) -> None:
    asyncio.run(interleavings(place, 300, 1))


@pytest.mark.long
def test_two_ways_of_one_owner_never_undo_each_other_ten_thousand_times(place: Place) -> None:
    asyncio.run(interleavings(place, 10_000, int.from_bytes(os.urandom(4), "big")))
