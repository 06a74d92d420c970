"""What the keeper keeps, and in which order: charges, and the lanes on which those of equal interval wait."""

from collections import OrderedDict
from typing import Any, Protocol

from holdtight import process
from holdtight.place import Place

__all__ = ["Charge", "Lane"]


class Charge(Protocol):
    place: Place

    @property
    def interval(self) -> float: ...
    @property
    def deadline(self) -> float: ...
    @property
    def alive(self) -> bool: ...
    def request(self, now: float) -> bytes | None: ...
    def whole(self, request: bytes) -> bytes: ...
    def answered(self, reply: Any, sent: float) -> bool: ...
    def unanswered(self, cause: str) -> None: ...
    def overdue(self) -> None: ...


class Lane:
    """Charges of one interval. `latest` is the last due time given; what is due well before it (its grant took long)
    does not belong at the end of the lane and goes on the agenda."""

    __slots__ = ("armed", "charges", "check_at", "epoch", "interval", "latest", "slack")

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.epoch = process.current.epoch
        self.check_at = 0.0
        self.latest = 0.0
        self.slack = interval / 10
        self.charges: OrderedDict[Charge, float] = OrderedDict()
        self.armed = False
