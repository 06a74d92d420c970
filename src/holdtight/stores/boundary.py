"""A place is the server that keeps a client's locks, and opens links to it.

There are two kinds of places: a server behind a network or a socket (`stores/redis/single.py`), and a store in this
process (`stores/memory/place.py`). The layers above treat them alike, with one exception: a place that answers
`at_once` needs no thread to connect and has nothing to poll.
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
    """One connection after its handshake, used by one thread at a time. A request that fails raises LinkDown."""

    owed: int
    """Number of requests whose replies have not been read. A link with unread replies is never shared."""
    inbox: bytes
    inbox_word: bytes
    """The inbox encoded as a request argument; empty if this link receives no bells."""

    def call(self, request: bytes, timeout: float) -> Any: ...
    def call_aside(self, request: bytes, timeout: float) -> Any:
        """Like `call`, for a waiter in the queue: bells that arrive meanwhile are kept for the next `park`."""
        ...

    def look_out(self) -> None:
        """Allows `call` to spin for a moment before it blocks."""
        ...

    def set_timeout(self, timeout: float) -> None: ...
    def send(self, request: bytes) -> None: ...
    def reply(self) -> Any: ...
    def park(self, owner: Owner, until: float) -> Bell | None: ...
    def wake(self) -> None:
        """Called by another thread: ends the current `park`, or the next one. The link is unusable afterwards."""
        ...

    # Non-blocking use, for the keeper.

    def fileno(self) -> int:
        """The descriptor to poll; -1 for a link whose replies are ready at once."""
        ...

    def stop_blocking(self) -> None: ...
    def push_out(self, data: bytes) -> bytes: ...
    def pump(self) -> list[Any]: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """In a forked child: drops the connection without sending anything."""
        ...


class Place:
    """One server as one client of this process uses it, and the clock that applies there."""

    at_once = False
    """True if links open and answer without waiting."""

    def __init__(self, client: Client, runtime: "Runtime", display: str) -> None:
        self.client = client
        self.runtime = runtime
        self.clock = runtime.clock
        """The clock of this client's leases and waits. The keeper in `runtime` uses the same one."""
        self.display = display
        self.refreshers: list[Callable[[], None]] = []
        """Checks to run from time to time while this client is in use."""
        self.spare: Callable[[], Link | None] = lambda: None
        """Returns an idle link, if there is one; the caller may keep it."""
        self.handed_on: dict[bytes, Any] = {}
        """Names that were recently handed to a waiter, each with the object that checks the hand-over (HandedOn)."""

    def renew_identity(self) -> None:
        """In a forked child: replaces the identity inherited from the parent."""
        self.client.renew_identity()
        self.handed_on = {}

    def keeps(self, link: Link) -> None:
        """Called when the keeper starts to send its requests on this link."""

    def open(self, timeout: float) -> Link:
        """Opens a new link. May block; raises LinkDown or ServerSaid if it cannot connect in time."""
        raise NotImplementedError
