"""Flights of this process that others wait for: who waits for which, so that no circle of waits stays unnoticed.

Two kinds of circles are possible. In the first, flights of this process wait for each other: the caller that closes
the circle finds it (`Flight.join`). In the second, code of this flight waits at the server, for a lock or in line for a
value. All callers of the flight wait with it, and what they hold counts as held by that code (`Flight.blocks`): the
deadlock detector publishes it (see core/deadlock.py).
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from holdtight.base.identity import Key, current_work
from holdtight.base.process import on_fork
from holdtight.errors import DeadlockDetected

__all__ = ["Caller", "Flight", "current_flight"]

Block = tuple[Key, Any]


class Caller(NamedTuple):
    """A thread or task that waits for a flight: the blocks that it has open, and the flight whose code it runs."""

    stack: Sequence[Block]
    within: "Flight | None"


class Flight:
    """A flight of this process, in progress.

    Every hit of asyncio begins one, so its defaults stand at the class.
    """

    absent = False
    """No value was stored when it began, so every caller must wait for it."""
    landing = False
    """Its value may be stored, or read, from now on. A later caller may have called after an invalidation, so it must
    read the store itself."""
    entries: Sequence[Block] = ()
    """The block of its lock while it is held."""
    callers: Sequence[Caller] = ()
    """Of those that wait for it, the ones that hold something, or are part of a flight."""
    waits_for: "Sequence[Flight]" = ()
    """The flights that its code waits for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def join(self, stack: Sequence[Block]) -> Caller | None:
        """Notes that the current code waits for this flight; `stack` has its open blocks. `leave` must follow. None if
        it can be in no circle. Raises DeadlockDetected if this flight waits for the code itself."""
        me = current_flight()
        if me is None and not stack:
            return None
        caller = Caller(stack, me)
        with _circles.changing:  # of those that close a circle at the same time, the last one finds it
            if me is not None and self._waits_for(me):
                raise DeadlockDetected.with_self(self.name, "flight")
            self.callers = [*self.callers, caller]
            if me is not None:
                me.waits_for = [*me.waits_for, self]
        return caller

    def leave(self, caller: Caller | None) -> None:
        """The code waits no more."""
        if caller is None:
            return
        with _circles.changing:
            self.callers = _without(self.callers, caller)
            if caller.within is not None:
                caller.within.waits_for = _without(caller.within.waits_for, self)

    def _waits_for(self, other: "Flight") -> bool:
        seen, search = set[Flight](), list[Flight]([self])
        while search:
            each = search.pop()
            if each is other:
                return True
            if each not in seen:
                seen.add(each)
                search += each.waits_for
        return False

    def blocks(self) -> list[Block]:
        """What all those have open that wait for this flight, also through other flights."""
        found = list[Block]()
        seen, search = set[Flight]([self]), list[Flight]([self])
        while search:
            for stack, within in search.pop().callers:
                found += stack
                if within is not None and within not in seen:
                    seen.add(within)
                    found += within.entries
                    search.append(within)
        return found


def current_flight() -> Flight | None:
    """The flight whose code runs here."""
    return cast("Flight | None", current_work.get())


def _without(found: Sequence[Any], gone: object) -> list[Any]:
    """Without one of these."""
    left = list(found)
    for at, each in enumerate(left):
        if each is gone:
            del left[at]
            break
    return left


class _Circles:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """In a forked child: a thread of the parent may have held it."""
        self.changing = threading.RLock()


_circles = _Circles()
on_fork(_circles.renew)
