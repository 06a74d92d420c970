"""Charges, which the keeper keeps, and lanes, in which charges of equal interval wait in order."""

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

from holdtight.base import process
from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.keeper.barrier import Barrier
    from holdtight.keeper.keeper import Keeper

__all__ = ["Backlog", "Charge", "Lane", "barrier_of", "is_at"]

SHARES = 20
GRACE_SHARES = 3
"""The keeper has this many twentieths of the interval for a backlog before it enlarges its batches. Ten thousand leases
that are due at the same moment take it half a second."""
MOST_DOUBLINGS = 8
"""More would gain little: most of the time then goes into the work itself. And a request must arrive within two seconds
of the moment at which the keeper begins to write its batch."""
MOST_GATHERING = 0.002


class Backlog:
    """What the keeper has to do at once, and the factor by which it enlarges its batches meanwhile.

    Beside n busy threads each turn at the GIL costs the keeper about n times 5 ms, regardless of how much it does with
    the turn: a keeper that other threads keep from running must do more each time. A keeper that is late only because
    many leases were due at the same moment, or because the process was stopped for a while, goes on in small batches,
    so that other threads keep their latency. So the lateness is counted from when the keeper began with the backlog.
    """

    __slots__ = ("_began",)

    def __init__(self) -> None:
        self._began = float("inf")

    def done(self) -> None:
        """Nothing is left to send: the next backlog begins with the next charge."""
        self._began = float("inf")

    def stretch(self, due: float, now: float, interval: float) -> int:
        """1 at first, then four times as much for each twentieth of the interval. A charge that is late by a whole
        interval is half way to its deadline: then all of its lateness counts."""
        if now < self._began:
            self._began = now
        late = now - due
        if late < interval:
            late = min(late, now - self._began)
        shares = int(late * SHARES / interval) - GRACE_SHARES
        return 1 << min(2 * shares, MOST_DOUBLINGS) if shares > 0 else 1


class Charge(Protocol):
    @property
    def place(self) -> Place: ...
    @property
    def interval(self) -> float: ...
    @property
    def deadline(self) -> float: ...
    @property
    def alive(self) -> bool: ...
    def request(self, now: float) -> bytes | None:
        """None if there is nothing to send, also because the charge is over."""
        ...

    def answered(self, reply: Any, sent: float) -> bool | None:
        """None if replicas must have it too: then `acknowledged` follows."""
        ...

    def unanswered(self, cause: str) -> None: ...
    def overdue(self) -> None: ...
    def late(self, by: float) -> None:
        """Called when the keeper reaches the charge more than half an interval after it was due."""
        ...


def is_at(charge: Charge, place: Place) -> bool:
    """Whether the charge is kept on this server, or on this cluster."""
    return charge.place is place or charge.place.of(charge) is place


def barrier_of(place: Place, keeper: "Keeper") -> "Barrier":
    from holdtight.keeper.barrier import Barrier  # for clients with `acks`

    return Barrier(place, keeper)


class Lane:
    """Charges of one interval. `latest` is the last due time given; a charge that is due well before it (its grant took
    long) would break the lane's order and goes on the agenda."""

    __slots__ = ("armed", "charges", "check_at", "epoch", "gathering", "interval", "latest", "slack")

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.epoch = process.current.epoch
        self.check_at = 0.0
        self.latest = 0.0
        self.slack = interval / 10
        self.gathering = min(interval / 1000, MOST_GATHERING)
        """How much later than a charge is due the thread wakes, so that the batch takes those that are due after it."""
        self.charges: OrderedDict[Charge, float] = OrderedDict()
        self.armed = False
