"""A breaker: leaves a node alone for a while after repeated failures."""

from holdtight.base.clock import Backoff
from holdtight.base.plan import LinkDown, ServerSaid

__all__ = ["Breaker"]

_PROBES = Backoff(first="50ms", cap="1s")


class Breaker:
    """Of one node: after failures in a row it is left alone for a while, then one probe decides. It saves time, and
    never changes what a majority is."""

    def __init__(self) -> None:
        self._failures = 0
        self._closed_at = 0.0
        self._last: object = None
        self._cause = ""
        self._refused = False

    def failed(self, now: float, cause: str, *, refused: bool = False) -> None:
        """`refused`: the cause is what the node itself said, to us who would come in."""
        self._failures += 1
        self._cause, self._refused = cause, refused
        # The first does not open it, not even for who has looked at the clock before.
        self._closed_at = 0.0 if self._failures == 1 else now + _PROBES.pause(self._failures - 1)

    def failed_once(self, now: float, cause: str, what: object, *, refused: bool = False) -> None:
        """As `failed`; the end of one connection is one failure, however many are told of it."""
        if what is not self._last:
            self._last = what
            self.failed(now, cause, refused=refused)

    def answer(self) -> LinkDown | ServerSaid:
        """What stands for that of a node which is left alone. A wrong password is not an outage, here as anywhere."""
        return ServerSaid(self._cause) if self._refused else LinkDown(self._cause or "it cannot be reached", sent=False)

    def worked(self) -> None:
        self._failures = 0

    def is_open(self, now: float) -> bool:
        return self._failures > 0 and now < self._closed_at
