"""A flight for tests: its computations are counted, and can be held up."""

from typing import Any

from holdtight import AsyncLocks
from tests.scenarios.world import World

__all__ = ["Report"]


class Report:
    """Computes a report for each id."""

    def __init__(self, world: World, client: AsyncLocks | None = None, **options: Any) -> None:
        self.world = world
        self.computed = 0
        self.hold = self.go = False
        self.value: Any = None
        """What is returned, or raised; None for a value that counts."""

        @(client or world.client).single_flight("report:{id}", **{"ttl": 60, "wait": 20, **options})
        async def report(id: int) -> Any:
            self.computed += 1
            number = self.computed
            if self.hold:
                await world.until(lambda: self.go)
            if isinstance(self.value, BaseException):
                raise self.value
            return {"id": id, "number": number} if self.value is None else self.value

        self.report: Any = report

    async def in_the_air(self, id: int = 7) -> Any:
        """An actor that computes, and is held up."""
        self.hold, self.go = True, False
        before = self.computed
        actor = self.world.start(self.report(id))
        await self.world.until(lambda: self.computed > before)
        return actor
