"""server/shared.py: one reading for all who ask, and none that began before what must show."""

from __future__ import annotations

import asyncio

from holdtight.server.shared import Shared


class Readings:
    """Each gives the truth as it was when it began, and ends when the test says so."""

    def __init__(self) -> None:
        self.truth = 0
        self.begun = 0
        self.go_on = asyncio.Event()

    async def read(self) -> int:
        self.begun += 1
        found = self.truth
        await self.go_on.wait()
        return found

    async def until_begun(self, number: int) -> None:
        async with asyncio.timeout(10):
            while self.begun < number:
                await asyncio.sleep(0)


async def changed_while_read() -> tuple[Readings, Shared[int], asyncio.Task[int]]:
    """A reading is under way that began before the change. Also returns the caller that waits for it."""
    readings = Readings()
    shared = Shared(readings.read, 3600.0)
    before = asyncio.create_task(shared.get())
    await readings.until_begun(1)
    readings.truth = 1
    shared.stale()
    return readings, shared, before


def test_who_asks_after_a_change_gets_no_reading_that_began_before_it() -> None:
    async def main() -> None:
        readings, shared, before = await changed_while_read()
        after = [asyncio.create_task(shared.get()) for _ in range(3)]
        await asyncio.sleep(0)  # they are at it
        readings.go_on.set()
        assert await asyncio.gather(*after) == [1, 1, 1]
        assert await before in (0, 1)
        assert readings.begun == 2  # one for all of them

    asyncio.run(main())


def test_a_change_shows_also_to_who_asks_when_the_reading_before_it_has_ended() -> None:
    async def main() -> None:
        readings, shared, before = await changed_while_read()
        readings.go_on.set()
        await before
        assert [await shared.get() for _ in range(3)] == [1, 1, 1]
        assert readings.begun == 2  # the pause is that of the second

    asyncio.run(main())
