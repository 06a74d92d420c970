"""Lines of waiters of one client, for the scenarios of cohorts."""

from typing import Any

from holdtight import (
    AsyncLease,
)
from tests.scenarios.colours import Actor, bare
from tests.scenarios.world import World

FEW = 5


async def all_wait_for(world: World, lock: Any, count: int, served: list[AsyncLease]) -> list[Actor[None]]:
    """That many actors that pass the lock along, each noting its lease. They wait until the caller releases."""

    async def turn() -> None:
        async with lock as lease:
            served.append(lease)

    return await world.line_up(lock, *(turn() for _ in range(count)))


def others_wait(lock: Any) -> bool:
    client = bare(lock).client
    return bool(client.cohort.waiters(lock.name, client))


async def one_leads(world: World) -> None:
    """Waits until one member stands in the server's line, as others see it: long before the window closes."""
    other = world.locks()

    async def seen() -> bool:
        return (await other.inspect("thing")).waiting == 1

    await world.until(seen, within=3)


async def done(actors: list[Actor[None]]) -> None:
    for actor in actors:
        await actor.result()
