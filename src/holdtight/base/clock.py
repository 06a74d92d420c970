"""Time as holdtight uses it: absolute deadlines on a clock that does not stop in suspend.

Inside Python a moment is a float of seconds on `boottime()`; milliseconds exist only in Lua and on
the wire. No wall clock of this machine ever decides whether a lease is valid.
"""

import functools
import re
import sys
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, cast

__all__ = [
    "BACKOFF",
    "DRIFT",
    "Backoff",
    "Clock",
    "Drift",
    "Duration",
    "Sleeper",
    "boottime",
    "seconds",
    "ttl_seconds",
    "wait_seconds",
]

if TYPE_CHECKING:
    from datetime import timedelta

    Duration = int | float | str | timedelta
else:
    Duration = object  # datetime is loaded by who uses it

CLOCK_ID: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

SHORTEST_TTL = 0.1
SHORTEST_UNRENEWED_TTL = 0.01
LONGEST_TTL = 7 * 24 * 3600.0

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


Clock = Callable[[], float]
boottime: Clock = functools.partial(time.clock_gettime, CLOCK_ID)
"""Seconds on a clock that goes on while the machine is suspended."""

LONGEST_NAP = 3600.0


class Sleeper:
    """A thread that sleeps until it is woken, or until a moment. `wake` can be called from anywhere, finalizers and
    signal handlers included; what it was woken with is kept until the next sleep."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken: SimpleQueue[Any] = SimpleQueue()
        self.wake: Callable[[Any], None] = self._woken.put

    def sleep(self, until: float) -> Any:
        """What it was woken with; None when the time has come."""
        while True:
            left = until - self._clock()
            try:
                return self._woken.get(timeout=min(left, LONGEST_NAP)) if left > 0 else self._woken.get_nowait()
            except Empty:
                if left <= 0:
                    return None

    def forget(self) -> None:
        """All that it was woken with so far."""
        while not self._woken.empty():
            self._woken.get()


def _shown(value: object) -> str:
    """A value in a message; Python refuses to print the longest numbers."""
    try:
        text = repr(value)
    except ValueError:
        return "<a very large number>"
    return text if len(text) <= 60 else text[:57] + "…"


def seconds(value: object, argument: str) -> float:
    """A duration as a user writes it, in seconds; ValueError or TypeError names `argument`."""
    datetime = sys.modules.get("datetime")
    if datetime is not None and isinstance(value, datetime.timedelta):
        number = float(cast(Any, value).total_seconds())
    elif isinstance(value, str):
        match = _TEXT.fullmatch(value.strip())
        if match is None:
            raise ValueError(
                f'{argument}={_shown(value)} is not a duration: write seconds or "250ms", "5s", "2m", "1h"'
            )
        number = float(match[1]) * _UNITS[match[2]]
    elif isinstance(value, bool):
        raise ValueError(f"{argument}={_shown(value)} is not a duration: a bool is not a number of seconds")
    elif isinstance(value, (int, float)):
        try:
            number = float(value)
        except OverflowError:
            raise ValueError(f"{argument}={_shown(value)} is too large for a duration") from None
    else:
        raise TypeError(f"{argument} must be seconds, a timedelta or a text such as '5s', not {type(value).__name__}")
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{argument}={_shown(value)} is not a finite duration")
    if number < 0:
        raise ValueError(f"{argument}={_shown(value)} is negative")
    return number


def wait_seconds(value: object, argument: str = "wait") -> float | None:
    """How long to wait: None is for ever, 0 is not at all."""
    return None if value is None else seconds(value, argument)


def ttl_seconds(value: object, *, renewed: bool, argument: str = "ttl") -> float:
    """A time to live in the range that can be kept honestly."""
    number = seconds(value, argument)
    least = SHORTEST_TTL if renewed else SHORTEST_UNRENEWED_TTL
    if not least <= number <= LONGEST_TTL:
        hint = "" if renewed or number > LONGEST_TTL else " (10ms is the least there is)"
        if renewed and SHORTEST_UNRENEWED_TTL <= number < SHORTEST_TTL:
            hint = "; down to 10ms is possible with renew=False"
        raise ValueError(f"{argument}={_shown(value)} is out of range: {least * 1000:.0f}ms to 7 days{hint}")
    return number


class _Frozen:
    """What a frozen dataclass gives, without the milliseconds that making one costs at import."""

    __slots__: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make another")

    def _state(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._state() == self._state()

    def __hash__(self) -> int:
        return hash((type(self), self._state()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._state()


class Drift(_Frozen):
    """How far two clocks may part while a lease runs: a share of the ttl plus a fixed margin."""

    __slots__ = ("rate", "fixed")  # noqa: RUF023 - in the order of the arguments

    rate: float
    fixed: float

    def __init__(self, rate: float = 0.01, fixed: Duration = "2ms") -> None:
        share = cast(object, rate)
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 0.5:
            raise ValueError(f"drift rate={rate!r} must be a share from 0 to below 0.5")
        object.__setattr__(self, "rate", share)
        object.__setattr__(self, "fixed", seconds(fixed, "drift fixed"))

    def valid(self, ttl: float) -> float:
        """The part of a ttl that a holder may rely on. Never all of it, and never nothing."""
        margin = ttl * self.rate + self.fixed
        return ttl - margin if margin < ttl / 2 else ttl / 2

    def ttl_for(self, valid: float) -> float:
        """The ttl to ask for if `valid` seconds of it are to be relied on."""
        return (valid + self.fixed) / (1 - self.rate)


class Backoff(_Frozen):
    """Growing pauses between tries, with jitter so that a fleet does not come back as one."""

    __slots__ = ("first", "cap")  # noqa: RUF023 - in the order of the arguments

    first: float
    cap: float

    def __init__(self, first: Duration = "10ms", cap: Duration = "1s") -> None:
        shortest, longest = seconds(first, "retry first"), seconds(cap, "retry cap")
        if not 0 < shortest <= longest:
            raise ValueError(f"retry first={first!r} must be above 0 and at most cap={cap!r}")
        object.__setattr__(self, "first", shortest)
        object.__setattr__(self, "cap", longest)

    def pause(self, tries: int) -> float:
        """Seconds to wait after `tries` failures (1 for the first)."""
        ceiling = min(self.cap, self.first * 2.0 ** min(tries - 1, 30))
        import random

        # Not from the generator that programs seed: ours is drawn from in the background, whenever a server is gone.
        return ceiling * random.SystemRandom().uniform(0.5, 1.0)


DRIFT = Drift()
BACKOFF = Backoff()
