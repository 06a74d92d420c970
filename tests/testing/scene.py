"""A scene of tasks, with a clock that it moves and locks that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdtight import AsyncLocks
from holdtight.testing import Clock

__all__ = ["play"]

Scene = Callable[[Clock, AsyncLocks], Awaitable[None]]


def play(scene: Scene) -> None:
    async def main() -> None:
        clock = Clock()
        async with AsyncLocks(clock.store(), ttl=9) as locks:
            await asyncio.wait_for(scene(clock, locks), 20)

    asyncio.run(main())
