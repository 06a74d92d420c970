"""A circuit breaker for one node of a quorum."""

from typing import Protocol

from holdtight.base.clock import Backoff
from holdtight.base.plan import LinkDown, ServerSaid

__all__ = ["Breaker"]

_PROBES = Backoff(first="50ms", cap="1s")


class Reached(Protocol):
    """A node, as the breaker reports it: down while the breaker skips it."""

    def made(self) -> None: ...
    def not_made(self, cause: str) -> None: ...


class Breaker:
    """Skips a node for a while after repeated failures, then lets one probe decide. It saves time; it never changes
    the size of the majority."""

    def __init__(self, node: Reached) -> None:
        self._node = node
        self._failures = 0
        self._closed_at = 0.0
        self._last: object = None
        self._cause = ""
        self._refused = False

    def failed(self, now: float, cause: str, *, refused: bool = False) -> None:
        """`refused`: the node answered and rejected our login; `cause` is its reply."""
        self._failures += 1
        self._cause, self._refused = cause, refused
        # One failure does not open the breaker, not even for a caller that read the clock earlier.
        if self._failures == 1:
            self._closed_at = 0.0
            return
        self._closed_at = now + _PROBES.pause(self._failures - 1)
        self._node.not_made(cause)

    def failed_once(self, now: float, cause: str, what: object, *, refused: bool = False) -> None:
        """As `failed`, but counts one broken connection (`what`) once, however many requests report it."""
        if what is not self._last:
            self._last = what
            self.failed(now, cause, refused=refused)

    def answer(self) -> LinkDown | ServerSaid:
        """Stands in for the reply of a skipped node. A rejected login stays a ServerSaid: it is not an outage."""
        return ServerSaid(self._cause) if self._refused else LinkDown(self._cause or "it cannot be reached", sent=False)

    def worked(self) -> None:
        if self._failures:
            before, self._failures = self._failures, 0
            if before > 1:
                self._node.made()

    @property
    def doubts(self) -> bool:
        """Whether the node failed, and has not worked since."""
        return self._failures > 0

    def is_open(self, now: float) -> bool:
        return self._failures > 0 and now < self._closed_at
