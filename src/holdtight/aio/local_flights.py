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

    waiters: "list[asyncio.Future[Any]] | None" = None
    early: "list[asyncio.Future[Any]] | None" = None
    """Waiters that were here before the look was sent: what it finds is not older than their call."""

    @property
    def joinable(self) -> bool:
        """There is nothing yet to look for: calls wait for it."""
        return self.looking or (self.absent and not self.landing)

    def new_waiter(self, early: bool = False) -> "asyncio.Future[Any]":
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting += 1
        if early and self.looking:
            if self.early is None:
                self.early = []
            self.early.append(waiter)
        else:
            if self.waiters is None:
                self.waiters = []
            self.waiters.append(waiter)
        return waiter

    @property
    def in_circle(self) -> bool:
        """A deadlock has ended it, which concerns only callers that hold something."""
        return self.computed is not None and self.computed.circle

    def has_found(self, answer: Answer | None, *, to_all: bool = False) -> None:
        """The first caller has looked, and there is no flight. The waiters that the answer may be too old for start
        again; with None all do."""
        self.looking = False
        if self.waiting:  # most flights have only the caller that began them
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
        self._by_loop: dict[asyncio.AbstractEventLoop, dict[str, LocalFlight]] = {}
        self._latest: tuple[Any, dict[str, LocalFlight]] = None, {}
        self.in_background: set[asyncio.Task[None]] = set()

    def here(self) -> dict[str, LocalFlight]:
        """Those of the running loop, by name."""
        loop = asyncio.get_running_loop()
        latest, flights = self._latest
        if latest is not loop:
            if loop not in self._by_loop:
                for each in [each for each in list(self._by_loop) if each.is_closed()]:
                    self._by_loop.pop(each, None)
            flights = self._by_loop.setdefault(loop, {})
            self._latest = loop, flights
        return flights

    def join(self, name: str) -> tuple[LocalFlight, bool]:
        """The flight of this name, and whether the caller has just begun it."""
        flights = self.here()
        found = flights.get(name)
        if found is not None:
            return found, False
        made = flights[name] = LocalFlight(name)
        return made, True

    def end(self, flight: LocalFlight) -> None:
        flights = self.here()
        if flights.get(flight.name) is flight:
            del flights[flight.name]

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


def _finish_all(waiters: "list[asyncio.Future[Any]] | None", result: Any) -> None:
    for waiter in waiters or ():
        if not waiter.done():
            waiter.set_result(result)
