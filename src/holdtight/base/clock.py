"""Time in holdtight: absolute deadlines on a clock that keeps running during suspend.

In Python a moment is a float of seconds on `boottime()`; milliseconds exist only in Lua and on
the wire. This machine's wall clock never decides whether a lease is valid.
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
    Duration = object  # holdtight itself never imports datetime

CLOCK_ID: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

SHORTEST_TTL = 0.1
SHORTEST_UNRENEWED_TTL = 0.01
LONGEST_TTL = 7 * 24 * 3600.0

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


Clock = Callable[[], float]
boottime: Clock = functools.partial(time.clock_gettime, CLOCK_ID)
"""Seconds on a clock that keeps running while the machine is suspended."""

LONGEST_SLEEP = 3600.0
"""Seconds: threads sleep in pieces, as the system's calls take no endless time."""
NEVER = float("inf")
"""A moment that does not come."""


class Sleeper:
    """Lets a thread sleep until it is woken or a moment comes. `wake` is safe anywhere, also in finalizers and signal
    handlers; values passed to `wake` are kept until the next sleep."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken: SimpleQueue[Any] = SimpleQueue()
        self.wake: Callable[[Any], None] = self._woken.put

    def sleep(self, until: float) -> Any:
        """Returns the value passed to `wake`, or None once `until` has passed."""
        if until == NEVER:
            return self._woken.get()
        while True:
            left = until - self._clock()
            try:
                return self._woken.get(timeout=min(left, LONGEST_SLEEP)) if left > 0 else self._woken.get_nowait()
            except Empty:
                if left <= 0:
                    return None

    def forget(self) -> None:
        """Drops all pending wake-ups."""
        while not self._woken.empty():
            self._woken.get()


def _shown(value: object) -> str:
    """`repr` for a message, shortened; Python refuses to print very long integers."""
    try:
        text = repr(value)
    except ValueError:
        return "<a very large number>"
    return text if len(text) <= 60 else text[:57] + "..."


def seconds(value: object, argument: str) -> float:
    """Converts a user's duration to seconds; the ValueError or TypeError names `argument`."""
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
    """Converts a waiting time: None means for ever, 0 not at all."""
    return None if value is None else seconds(value, argument)


def ttl_seconds(value: object, *, renewed: bool, argument: str = "ttl") -> float:
    """Converts a ttl and checks that it is in the range that holdtight can guarantee."""
    number = seconds(value, argument)
    least = SHORTEST_TTL if renewed else SHORTEST_UNRENEWED_TTL
    if not least <= number <= LONGEST_TTL:
        hint = "" if renewed else " (10ms is the minimum)"
        if number > LONGEST_TTL:
            hint = "; a number is in seconds, milliseconds are written 250ms"
        if renewed and SHORTEST_UNRENEWED_TTL <= number < SHORTEST_TTL:
            hint = "; down to 10ms is possible with renew=False"
        raise ValueError(f"{argument}={_shown(value)} is out of range: {least * 1000:.0f}ms to 7 days{hint}")
    return number


class _Frozen:
    """Behaves like a frozen dataclass, without the milliseconds that creating one costs at import."""

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
    """How far two clocks may diverge while a lease runs: a share of the ttl plus a fixed margin. A holder relies on the
    ttl less both, at least on half of it.

    Options:
        rate: the share of the ttl, from 0 to below 0.5. Default 0.01.
        fixed: the margin, a duration. Default 2 ms.

    Raises ValueError for values out of range.

    Example:
        >>> Drift(rate=0.02, fixed="5ms").valid(10)
        9.795
    """

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
        """The part of a ttl that a holder may rely on, at least half of it."""
        margin = ttl * self.rate + self.fixed
        return ttl - margin if margin < ttl / 2 else ttl / 2

    def ttl_for(self, valid: float) -> float:
        """The ttl to request so that `valid` seconds of it are reliable."""
        return (valid + self.fixed) / (1 - self.rate)


class Backoff(_Frozen):
    """Growing pauses between attempts, each a random half to the whole of its length, so that many clients do not retry
    at the same moment.

    Options:
        first: the first pause, a duration above 0. Default 10 ms.
        cap: the longest pause. Default 1 s.

    Raises ValueError for values out of range.

    Example:
        >>> 0.1 <= Backoff(first="200ms", cap="2s").pause(1) <= 0.2
        True
    """

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

        # Not the global generator, which programs may seed: background retries would disturb their sequence.
        return ceiling * random.SystemRandom().uniform(0.5, 1.0)


DRIFT = Drift()
BACKOFF = Backoff()
