"""Time as it passes for the clients of a place: the clock, the keeper that goes by it, and the ways to sleep and to
have something called.

`keeper.runtime` is this process's own: there time passes by itself. In those of `holdtight.testing` time passes when
the test says so.
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
    """What other layers ask of the keeper (see keeper/keeper.py). A charge is what it keeps, a place is a server."""

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
    def forget(self, place: Any, *, dropped: bool = False) -> None: ...
    def charges(self, place: Any) -> Iterator[Any]: ...


class Runtime:
    def __init__(self, clock: Clock, keeper: Keeping, tell: Callable[..., None]) -> None:
        self.clock = clock
        self.keeper = keeper
        self.tell = tell
        """Has something called in the thread for callbacks."""

    def sleeper(self) -> Sleeper:
        return Sleeper(self.clock)

    def call_soon(self, loop: "AbstractEventLoop", function: Callable[..., object], *args: Any) -> None:
        """From any thread, on that event loop; not at all if that is closed, and with it all who could be told."""
        try:
            loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            pass

    def call_at(self, loop: "AbstractEventLoop", when: float, function: Callable[..., object], *args: Any) -> Timer:
        """On the event loop that runs in this thread, at a moment on our clock."""
        return loop.call_later(max(0.0, min(when - self.clock(), LONGEST_TIMER)), function, *args)
