"""What many look at is read once for all of them: not more often than every so many seconds, and in a tenth of the
time. So no number of lookers costs the lock server, or those who take locks by way of this instance, more than one."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["Shared"]

SHARE = 10
"""What took t seconds to read is read again after SHARE times t at the earliest."""

T = TypeVar("T")


class Shared(Generic[T]):
    def __init__(self, read: Callable[[], Awaitable[T]], pause: float, share: float = SHARE) -> None:
        self._read = read
        self._pause = pause
        self._share = share
        self._reading: asyncio.Task[None] | None = None
        self._not_before = float("-inf")
        self._found: T | None = None
        self._failure: Exception | None = None
        self.took = 0.0

    async def get(self) -> T:
        """The latest, as fresh as it may be. A failure is kept as an answer would be: what was not read is not empty.
        It is tried again after the pause."""
        if self._reading is None and time.monotonic() >= self._not_before:
            self._reading = asyncio.create_task(self._run())
        if self._reading is not None:
            await asyncio.shield(self._reading)
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return self._found  # type: ignore[return-value]

    def stale(self) -> None:
        """What the service itself has changed shows at once."""
        self._not_before = float("-inf")

    async def _run(self) -> None:
        begun = time.monotonic()
        pause = self._pause
        try:
            self._found = await self._read()
            self._failure = None
            self.took = time.monotonic() - begun
            pause = max(pause, self._share * self.took)
        except Exception as failure:
            self._failure, self._found = failure, None
        finally:
            self._reading = None
            self._not_before = time.monotonic() + pause
