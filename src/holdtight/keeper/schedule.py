"""Charges, which the keeper keeps, and lanes, in which charges of equal interval wait in order."""

from collections import OrderedDict
from typing import Any, Protocol

from holdtight.base import process
from holdtight.stores.boundary import Place

__all__ = ["Charge", "Lane", "stretch"]

SHARES = 20
MOST_DOUBLINGS = 8
"""More would gain little: most of the time then goes into the work itself. And a request must arrive within two seconds
of the moment at which the keeper begins to write its batch."""


def stretch(late: float, interval: float) -> int:
    """The factor by which the keeper enlarges its batches: 1 while it is on time, then four times as much for each
    twentieth of the interval that it is late. Beside n busy threads each turn at the GIL costs the keeper about n times
    5 ms, regardless of how much it does with the turn."""
    shares = int(late * SHARES / interval)
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
    def request(self, now: float) -> bytes | None: ...
    def answered(self, reply: Any, sent: float) -> bool: ...
    def unanswered(self, cause: str) -> None: ...
    def overdue(self) -> None: ...
    def late(self, by: float) -> None:
        """Called when the keeper reaches the charge more than half an interval after it was due."""
        ...


class Lane:
    """Charges of one interval. `latest` is the last due time given; a charge that is due well before it (its grant took
    long) would break the lane's order and goes on the agenda."""

    __slots__ = ("armed", "charges", "check_at", "epoch", "interval", "latest", "slack")

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.epoch = process.current.epoch
        self.check_at = 0.0
        self.latest = 0.0
        self.slack = interval / 10
        self.charges: OrderedDict[Charge, float] = OrderedDict()
        self.armed = False
