"""Time as holdtight uses it: absolute deadlines on a clock that does not stop in suspend.

Inside Python a moment is a float of seconds on `boottime()`; milliseconds exist only in Lua and on
the wire. No wall clock of this machine ever decides whether a lease is valid.
"""

import random
import re
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

__all__ = ["BACKOFF", "DRIFT", "Backoff", "Drift", "Duration", "boottime", "seconds", "ttl_seconds", "wait_seconds"]

Duration = int | float | str | timedelta

CLOCK_ID: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

SHORTEST_TTL = 0.1
SHORTEST_UNRENEWED_TTL = 0.01
LONGEST_TTL = 7 * 24 * 3600.0

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def boottime() -> float:
    """Seconds on a clock that goes on while the machine is suspended."""
    return time.clock_gettime(CLOCK_ID)


def seconds(value: object, argument: str) -> float:
    """A duration as a user writes it, in seconds; ValueError or TypeError names `argument`."""
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, str):
        match = _TEXT.fullmatch(value.strip())
        if match is None:
            raise ValueError(f'{argument}={value!r} is not a duration: write seconds or "250ms", "5s", "2m", "1h"')
        number = float(match[1]) * _UNITS[match[2]]
    elif isinstance(value, bool):
        raise ValueError(f"{argument}={value!r} is not a duration: a bool is not a number of seconds")
    elif isinstance(value, (int, float)):
        try:
            number = float(value)
        except OverflowError:
            raise ValueError(f"{argument}={value!r} is too large for a duration") from None
    else:
        raise TypeError(f"{argument} must be seconds, a timedelta or a text such as '5s', not {type(value).__name__}")
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{argument}={value!r} is not a finite duration")
    if number < 0:
        raise ValueError(f"{argument}={value!r} is negative")
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
        raise ValueError(f"{argument}={value!r} is out of range: {least * 1000:.0f}ms to 7 days{hint}")
    return number


@dataclass(frozen=True, slots=True)
class Drift:
    """How far two clocks may part while a lease runs: a share of the ttl plus a fixed margin."""

    rate: float = 0.01
    fixed: Duration = "2ms"

    def __post_init__(self) -> None:
        rate = cast(object, self.rate)
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 0.5:
            raise ValueError(f"drift rate={self.rate!r} must be a share from 0 to below 0.5")
        object.__setattr__(self, "fixed", seconds(self.fixed, "drift fixed"))

    def valid(self, ttl: float) -> float:
        """The part of a ttl that a holder may rely on. Never all of it, and never nothing."""
        margin = ttl * self.rate + cast(float, self.fixed)
        return ttl - margin if margin < ttl / 2 else ttl / 2

    def ttl_for(self, valid: float) -> float:
        """The ttl to ask for if `valid` seconds of it are to be relied on."""
        return (valid + cast(float, self.fixed)) / (1 - self.rate)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Growing pauses between tries, with jitter so that a fleet does not come back as one."""

    first: Duration = "10ms"
    cap: Duration = "1s"

    def __post_init__(self) -> None:
        first, cap = seconds(self.first, "retry first"), seconds(self.cap, "retry cap")
        if not 0 < first <= cap:
            raise ValueError(f"retry first={self.first!r} must be above 0 and at most cap={self.cap!r}")
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "cap", cap)

    def pause(self, tries: int) -> float:
        """Seconds to wait after `tries` failures (1 for the first)."""
        ceiling = min(cast(float, self.cap), cast(float, self.first) * 2.0 ** min(tries - 1, 30))
        return ceiling * random.uniform(0.5, 1.0)


DRIFT = Drift()
BACKOFF = Backoff()
