"""Where a client's locks are: one server, and how to get a link to it.

There are two kinds of places: a server behind a network or a socket (`stores/redis/single.py`), and a store in this
process (`stores/memory/place.py`). The layers above treat them alike, but for one thing: a place that answers `at_once`
needs no thread to connect and has nothing to poll.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from holdtight.base.plan import Bell
from holdtight.base.values import Owner
from holdtight.stores.redis.handshake import Client

if TYPE_CHECKING:
    from holdtight.base.runtime import Runtime

__all__ = ["Link", "Place"]


class Link(Protocol):
    """One greeted connection, used by one thread at a time. LinkDown from whatever does not go through."""

    owed: int
    """Requests whose replies have not been read: a link that owes is never shared."""
    inbox: bytes
    inbox_word: bytes
    """The inbox as it goes into a request; empty if nobody can be rung here."""

    def call(self, request: bytes, timeout: float) -> Any: ...
    def call_aside(self, request: bytes, timeout: float) -> Any:
        """As `call`, for somebody who stands in line: bells that come meanwhile are kept for the next `park`."""
        ...

    def look_out(self) -> None:
        """Answers may be looked for, for a moment, before one sleeps."""
        ...

    def set_timeout(self, timeout: float) -> None: ...
    def send(self, request: bytes) -> None: ...
    def reply(self) -> Any: ...
    def park(self, owner: Owner, until: float) -> Bell | None: ...
    def wake(self) -> None:
        """From another thread: ends the `park` under way, or the next. The link is of no further use."""
        ...

    # What the keeper needs: the same link, never blocking.

    def fileno(self) -> int:
        """To poll; -1 for a link that has everything ready as soon as it was asked."""
        ...

    def stop_blocking(self) -> None: ...
    def push_out(self, data: bytes) -> bytes: ...
    def pump(self) -> list[Any]: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """In a forked child: lets go without a word."""
        ...


class Place:
    """One server, as one client of this process goes to it, and the time that counts there."""

    at_once = False
    """Links open and answer without any waiting."""

    def __init__(self, client: Client, runtime: "Runtime", display: str) -> None:
        self.client = client
        self.runtime = runtime
        self.clock = runtime.clock
        """What decides about this client's leases and waits. `runtime` has the keeper that goes by it."""
        self.display = display
        self.refreshers: list[Callable[[], None]] = []
        """What is to be looked at now and then while this client is in use."""
        self.spare: Callable[[], Link | None] = lambda: None
        """A link that nobody uses at the moment, if there is one: the taker may keep it."""
        self.handed_on: dict[bytes, Any] = {}
        """Names that were handed to a waiter of late, and who sees to it that they go on (errand.HandedOn)."""

    def renew_identity(self) -> None:
        """In a forked child: nothing of the parent's identity is ours."""
        self.client.renew_identity()
        self.handed_on = {}

    def keeps(self, link: Link) -> None:
        """From now on the keeper's requests go out on this link."""

    def open(self, timeout: float) -> Link:
        """A new link. May block; LinkDown or ServerSaid if it cannot be had in time."""
        raise NotImplementedError
