"""The flights of `single_flight` in progress on event loops of this process: calls of the same name share one."""

import asyncio
from typing import Any

from holdtight.recipes.flights import Answer, Computed
from holdtight.recipes.joining import Flight

__all__ = ["LocalFlight", "Registry", "finish"]

END_SECONDS = 2.0


class LocalFlight(Flight):
    """A task of its own computes, in the context of the first caller; it is cancelled when no caller waits any more.

    Before that, its first caller asks the server what there is (`looking`). Many calls that come at once wait for that
    one look, and if it finds nothing, for the flight: they are woken once.
    """

    task: "asyncio.Task[None] | None" = None
    computed: Computed | None = None
    waiting = 0
    looking = True
    over = False
    """It has landed, and wakes nobody any more."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.waiters: list[asyncio.Future[Any]] = []
        self.early: list[asyncio.Future[Any]] = []
        """Waiters that were here before the look was sent: what it finds is not older than their call."""

    @property
    def joinable(self) -> bool:
        """There is nothing yet to look for: calls wait for it."""
        return self.looking or (self.absent and not self.landing)

    def new_waiter(self, early: bool = False) -> "asyncio.Future[Any]":
        waiter = asyncio.get_running_loop().create_future()
        (self.early if early and self.looking else self.waiters).append(waiter)
        self.waiting += 1
        return waiter

    @property
    def in_circle(self) -> bool:
        """A deadlock has ended it, which concerns only callers that hold something."""
        return self.computed is not None and self.computed.circle

    def has_found(self, answer: Answer | None, *, to_all: bool = False) -> None:
        """The first caller has looked, and there is no flight. The waiters that the answer may be too old for start
        again; with None all do."""
        self.looking = False
        if self.waiting:
            _finish_all(self.early, answer)
            _finish_all(self.waiters, answer if to_all else None)

    def has_landed(self) -> None:
        self.over = True
        answer = None if self.computed is None else self.computed.all
        _finish_all(self.early, answer)
        _finish_all(self.waiters, answer)


class Registry:
    """The flights of one client that are under way, by event loop and name."""

    def __init__(self) -> None:
        self._flights: dict[tuple[asyncio.AbstractEventLoop, str], LocalFlight] = {}
        self.in_background: set[asyncio.Task[None]] = set()

    def join(self, name: str) -> tuple[LocalFlight, bool]:
        """The flight of this name, and whether the caller has just begun it."""
        key = asyncio.get_running_loop(), name
        found = self._flights.get(key)
        if found is not None:
            return found, False
        made = self._flights[key] = LocalFlight(name)
        return made, True

    def end(self, flight: LocalFlight) -> None:
        key = asyncio.get_running_loop(), flight.name
        if self._flights.get(key) is flight:
            del self._flights[key]

    def close(self) -> None:
        for task in list(self.in_background):
            if not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)

    async def ended(self) -> None:
        """After `close`: waits until the refreshes of this loop have given their locks back. A loop that ends sooner
        would leave their locks until the ttl, and the connection open."""
        here = asyncio.get_running_loop()
        tasks = [task for task in self.in_background if task.get_loop() is here]
        if tasks:
            await asyncio.wait(tasks, timeout=END_SECONDS)


def finish(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _finish_all(waiters: "list[asyncio.Future[Any]]", result: Any) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(result)
    waiters.clear()
