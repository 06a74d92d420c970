"""Flights that wait for each other, by way of their callers too: one of them gets DeadlockDetected."""

from typing import Any

import pytest

from holdtight import DeadlockDetected, FlightFailed
from tests.scenarios.world import World

pytestmark = [pytest.mark.played(kind=["exclusive"]), pytest.mark.usefixtures("values_go")]
"""Jobs take exclusive locks."""


async def test_a_flight_that_needs_itself_is_a_deadlock(world: World) -> None:
    jobs = dict[str, Any]()

    @world.client.single_flight("{word}", ttl=60, wait=20)
    async def flight(word: str) -> Any:
        return await jobs[word]()

    jobs["self"] = lambda: flight("self")
    with pytest.raises(DeadlockDetected):
        await flight("self")
    jobs["a"], jobs["b"] = (lambda: flight("b")), (lambda: flight("a"))
    with pytest.raises(DeadlockDetected):
        await flight("a")


async def test_flights_of_two_clients_that_need_each_other_are_a_deadlock(world: World) -> None:
    clients = [world.locks(deadlock_after=0.2) for _ in range(2)]
    ready = list[str]()
    flights = dict[str, Any]()
    for client, (mine, others) in zip(clients, (("a", "b"), ("b", "a")), strict=True):

        @client.single_flight("{word}", ttl=60, wait=20, error_ttl=0)
        async def flight(word: str, mine: str = mine, others: str = others) -> Any:
            if word != mine:
                return "other"
            ready.append(mine)
            await world.until(lambda: len(ready) >= 2)
            return await flights[mine](others)

        flights[mine] = flight
    actors = [world.start(flights[word](word)) for word in ("a", "b")]
    ended = list[str]()
    for actor in actors:
        try:
            ended.append(str(await actor.result()))
        except (DeadlockDetected, FlightFailed) as error:
            ended.append(type(error).__name__)
    assert "DeadlockDetected" in ended


class Mixed:
    """Client `one` waits in line for a value that `two` computes, and `two` needs what a caller of `one` holds."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.one, self.two = (world.locks(deadlock_after=0.2) for _ in range(2))
        self.held = self.close = False
        self.told = list[str]()

        @self.two.single_flight("b", ttl=60, wait=80, error_ttl=0)
        async def there() -> str:
            await world.until(lambda: self.close)
            await self.needed()
            return "computed there"

        @self.one.single_flight("b", ttl=60, wait=80, error_ttl=0)
        async def here() -> str:
            return "computed here"

        self.there, self.here = there, here

    async def needed(self) -> None:
        try:
            async with self.two.lock("a", wait=80):
                pass
        except DeadlockDetected:
            self.told.append("there")

    async def in_a_block(self) -> None:
        async with self.one.lock("a"):
            self.held = True
            try:
                await self.here()
            except DeadlockDetected:
                self.told.append("here")

    async def in_a_flight(self) -> None:
        @self.one.single_flight("a", ttl=60, wait=80, error_ttl=0)
        async def flight() -> str:
            self.held = True
            return str(await self.here())

        try:
            await flight()
        except DeadlockDetected:
            self.told.append("here")

    async def ends(self, *actors: Any) -> None:
        await self.world.until(lambda: self.held)
        self.close = True
        for actor in actors:
            await actor.result()
        assert self.told


@pytest.mark.parametrize("holder", ["in_a_block", "in_a_flight"])
async def test_a_caller_that_joins_a_flight_in_line_may_be_part_of_a_deadlock(world: World, holder: str) -> None:
    mixed = Mixed(world)
    there = world.start(mixed.there())
    await world.until_locked("b")
    runner = world.start(mixed.here())  # holds nothing, and is never told of a deadlock
    await world.in_line(world.client.lock("b"), 1)
    await mixed.ends(world.start(getattr(mixed, holder)()), runner, there)


@pytest.mark.parametrize("holder", ["in_a_block", "in_a_flight"])
async def test_the_first_caller_of_a_flight_in_line_may_be_part_of_a_deadlock(world: World, holder: str) -> None:
    mixed = Mixed(world)
    there = world.start(mixed.there())
    await world.until_locked("b")
    await mixed.ends(world.start(getattr(mixed, holder)()), there)


async def test_code_of_a_flight_may_wait_for_what_its_callers_hold(world: World) -> None:
    client = world.locks(deadlock_after=0.2)
    computing, joining = list[str](), list[str]()

    @client.single_flight("b", ttl=60, wait=80, error_ttl=0)
    async def flight() -> str:
        computing.append("now")
        await world.until(lambda: joining)
        async with client.lock("a", wait=80):
            return "never"

    async def holds_it() -> None:
        async with client.lock("a"):
            joining.append("now")
            await flight()

    first = world.start(flight())
    await world.until(lambda: computing)  # a caller that joins before that may have to start again
    other = world.start(holds_it())
    with pytest.raises(DeadlockDetected):
        await first.result()
    with pytest.raises(FlightFailed, match="DeadlockDetected"):
        await other.result()
