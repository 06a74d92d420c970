"""The runtime of a place's clients: the clock, the keeper that follows it, and ways to sleep and to schedule calls.

`keeper.runtime` is this process's own and runs on real time. In the runtimes of `holdtight.testing` the test advances
the time.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from holdtight.base.clock import Clock, Sleeper

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["Keeping", "Runtime", "Timer"]

LONGEST_TIMER = 86400.0


class Timer(Protocol):
    def cancel(self) -> None: ...


class Keeping(Protocol):
    """The keeper as other layers use it (see keeper/keeper.py). A charge is what it keeps, a place is a server."""

    @property
    def running(self) -> bool: ...
    def lane(self, interval: float) -> Any: ...
    def arm(self, lane: Any, due: float) -> None: ...
    def add(self, charge: Any, now: float) -> None: ...
    def drop(self, charge: Any) -> None: ...
    def ask(self, charge: Any) -> None: ...
    def at(self, when: float, what: Callable[[float], None]) -> None: ...
    def run_soon(self, what: Callable[[], None]) -> None: ...
    def watch(self, place: Any) -> None: ...
    def hurry(self, place: Any) -> None: ...
    def hurry_from(self, place: Any, since: float) -> None: ...
    def leave(self, place: Any) -> None: ...
    def forget(self, place: Any, *, dropped: bool = False) -> None: ...
    def charges(self, place: Any) -> Iterator[Any]: ...
    def holds(self, place: Any) -> bool: ...


class Runtime:
    def __init__(self, clock: Clock, keeper: Keeping, tell: Callable[..., None]) -> None:
        self.clock = clock
        self.keeper = keeper
        self.tell = tell
        """Calls a function in the callback thread."""

    def sleeper(self) -> Sleeper:
        return Sleeper(self.clock)

    def call_soon(self, loop: "AbstractEventLoop", function: Callable[..., object], *args: Any) -> None:
        """Calls the function on that event loop, from any thread. Does nothing if the loop is closed: then nothing on
        it can be waiting."""
        try:
            loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass

    def call_at(self, loop: "AbstractEventLoop", when: float, function: Callable[..., object], *args: Any) -> Timer:
        """Calls the function at a moment on our clock, on the event loop that runs in this thread."""
        return loop.call_later(max(0.0, min(when - self.clock(), LONGEST_TIMER)), function, *args)
