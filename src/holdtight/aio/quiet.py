"""Carries out the plans of owners from outside: leaves nothing behind that such an owner has not asked for."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdtight.aio.connection import Connection
from holdtight.aio.driver import Driver
from holdtight.aio.transport import Transport
from holdtight.base.plan import Bell, Park, Step

__all__ = ["Pulse", "QuietDriver"]

PULSE = 0.1
SHAKEN_SECONDS = 0.3
"""If a beat is this many seconds late, the process has stood still."""
ROUNDS = 8
"""After this many turns of the event loop, a request knows that its connection was closed."""


class Pulse:
    """Notices that this process has stood still: what happened meanwhile, such as clients that hung up, is heard of
    before anything is done for them. Beats while somebody waits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting = 0
        self._due = self._shaken_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        self._waiting += 1
        if self._timer is None:
            self._arm()

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._due = self._clock() + PULSE
        self._timer = asyncio.get_running_loop().call_later(PULSE, self._beat)

    def _beat(self) -> None:
        self._look()
        self._arm()

    def _look(self) -> bool:
        now = self._clock()
        if now > self._due + SHAKEN_SECONDS:
            self._shaken_until = now + SHAKEN_SECONDS
        return now < self._shaken_until

    async def settle(self) -> None:
        if self._look():
            for _ in range(ROUNDS):
                await asyncio.sleep(0)


class QuietDriver(Driver):
    """Leaves nothing to the keeper: an undo that cannot be sent now is left to the ttl and the heartbeat."""

    def __init__(self, transport: Transport, connection: Connection | None, pulse: Pulse) -> None:
        super().__init__(transport, connection)
        self._pulse = pulse
        self._attempted = True

    def _defer(self, step: Step) -> None: ...

    async def _step(self, step: Step) -> Any:
        """An attempt takes the owner's place in line over from any other connection. The client of a process that stood
        still may have hung up long ago, and stand in line elsewhere: its hanging up is heard first."""
        await self._pulse.settle()
        self._attempted = True
        return await super()._step(step)

    async def _wait(self, park: Park) -> Bell | None:
        """An attempt keeps the place for one heartbeat only, and the keeper's next one may never come."""
        connection = self._connection
        if self._attempted and connection is not None and park.touch is not None:
            self._transport.send(connection, park.touch(b""))  # if it is lost, the keeper sends the next one
        self._attempted = False
        return await super()._wait(park)
