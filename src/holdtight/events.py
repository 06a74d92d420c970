"""One typed stream of what happens to locks; logs, metrics and traces hang on it.

Subscribers are plain functions. They are called inline in the thread that acquired or released, or in the
callback thread for what the keeper notices. Their errors are logged and change nothing.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from holdtight.herald import logger, tell
from holdtight.values import LossReason

__all__ = [
    "Acquired",
    "Event",
    "Events",
    "Lost",
    "PreviousExpired",
    "ReleaseFailed",
    "Released",
    "RenewalFailed",
    "Renewed",
    "TimedOut",
    "Waited",
]


@dataclass(frozen=True, slots=True)
class Event:
    """`name` is the lock's name, `owner` the acquisition's id."""

    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class Acquired(Event):
    fence: int
    waited: float


@dataclass(frozen=True, slots=True)
class Waited(Event):
    """A wait is over, one way or the other."""

    seconds: float
    acquired: bool


@dataclass(frozen=True, slots=True)
class TimedOut(Event):
    waited: float
    holder: str | None


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    fence: int
    remaining: float


@dataclass(frozen=True, slots=True)
class RenewalFailed(Event):
    """Not yet a loss: the deadline decides."""

    fence: int
    remaining: float
    cause: str


@dataclass(frozen=True, slots=True)
class Lost(Event):
    fence: int
    reason: LossReason


@dataclass(frozen=True, slots=True)
class Released(Event):
    fence: int
    held: float


@dataclass(frozen=True, slots=True)
class ReleaseFailed(Event):
    """The server could not be told; the grant ends by its ttl."""

    fence: int
    cause: str


@dataclass(frozen=True, slots=True)
class PreviousExpired(Event):
    """The holder before us never released: it crashed, hung or was cut off."""

    previous: str


Subscriber = Callable[[Event], object]

_LEVELS: dict[type[Event], int] = {
    Lost: logging.WARNING,
    RenewalFailed: logging.WARNING,
    ReleaseFailed: logging.WARNING,
    PreviousExpired: logging.WARNING,
}


class Events:
    """Where to subscribe. `wanted` is False while nobody listens, so that the hot path can skip the making."""

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()

    def subscribe(self, function: Subscriber) -> Callable[[], None]:
        """Calls `function` with every event from now on. Returns what ends the subscription."""
        if not callable(function):
            raise TypeError(f"a subscriber must be callable, not {type(function).__name__}")
        entry: Subscriber = lambda event: function(event)  # noqa: E731 - one identity per subscription
        self._subscribers = (*self._subscribers, entry)

        def unsubscribe() -> None:
            self._subscribers = tuple(each for each in self._subscribers if each is not entry)

        return unsubscribe

    @property
    def wanted(self) -> bool:
        return bool(self._subscribers) or logger.isEnabledFor(logging.DEBUG)

    def emit(self, event: Event) -> None:
        """To log and subscribers, in this thread."""
        level = _LEVELS.get(type(event), logging.DEBUG)
        if logger.isEnabledFor(level):
            logger.log(level, "%s %s", type(event).__name__, event.name, extra={"holdtight": event})
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:
                logger.exception("an event subscriber failed on %r", event)

    def emit_later(self, event: Event) -> None:
        """From the keeper: in the callback thread."""
        tell(self.emit, event)
