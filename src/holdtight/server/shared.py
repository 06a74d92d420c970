"""Reads something once for all who look at it: at most once in a number of seconds, and in at most a tenth of the time.
So many viewers cost the lock server, and the callers of this instance, no more than one viewer does."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["Shared"]

SHARE = 10
"""After a reading that took t seconds, the next one starts SHARE times t later at the earliest."""

T = TypeVar("T")


class Shared(Generic[T]):
    def __init__(self, read: Callable[[], Awaitable[T]], pause: float, share: float = SHARE) -> None:
        self._read = read
        self._pause = pause
        self._share = share
        self._reading: asyncio.Task[None] | None = None
        self._outdated = False
        """Whether the reading under way began before a change that must show."""
        self._not_before = float("-inf")
        self._found: T | None = None
        self._failure: Exception | None = None
        self.took = 0.0

    async def get(self) -> T:
        """Returns the latest reading. A failed reading is kept like an answer, since a failure does not mean that there
        is nothing; the next one follows after the pause."""
        if self._reading is not None and self._outdated:
            await asyncio.shield(self._reading)
        if self._reading is None and time.monotonic() >= self._not_before:
            self._reading = asyncio.create_task(self._run())
        if self._reading is not None:
            await asyncio.shield(self._reading)
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return self._found  # type: ignore[return-value]

    def stale(self) -> None:
        """Called after a change by the service itself, which must show at once: also to a caller that finds a reading
        under way, which may have begun before the change."""
        self._not_before = float("-inf")
        self._outdated = self._reading is not None

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
            if not self._outdated:
                self._not_before = time.monotonic() + pause
            self._outdated = False
