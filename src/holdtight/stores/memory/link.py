"""A link to a server in this process: what is asked is carried out at once, in the caller's thread.

# Invariants:
# - used by one thread at a time; bells come from any;
# - a bell that came before a request was carried out is older than its reply and dropped; one that comes after it is
#   kept for who parks next.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base.plan import Bell
from holdtight.base.values import Owner
from holdtight.stores.memory.server import Hear, Server
from holdtight.stores.redis.handshake import Client, Session, greet
from holdtight.stores.redis.link import bell_in
from holdtight.stores.redis.resp import bulk

if TYPE_CHECKING:
    from holdtight.base.runtime import Runtime

__all__ = ["Link", "open_link"]

_Reader = hiredis.Reader


def requests_in(data: bytes) -> list[list[bytes]]:
    """By a reader of its own: one that was interrupted would have a rest of the last request for the next."""
    reader = _Reader()
    reader.feed(data)
    found: list[list[bytes]] = []
    while (words := reader.gets()) is not False:
        found.append(words)
    return found


class Link:
    """One connection, greeted."""

    def __init__(self, server: Server, inbox: bytes, runtime: "Runtime") -> None:
        self._server = server
        self._execute = server.execute
        self._sleeper = runtime.sleeper()
        self._replies: deque[Any] = deque()
        self.owed = 0
        self.inbox = inbox
        self.inbox_word = bulk(inbox)
        self.listen(self._sleeper.wake)

    def listen(self, hear: Hear) -> None:
        """Has the inbox's messages told to `hear`, which must not know the link: else it would never be dropped."""
        self._server.subscribe(self.inbox, hear)

    def call(self, request: bytes, timeout: float) -> Any:
        self._sleeper.forget()
        (words,) = requests_in(request)
        return self._execute(words)

    def call_aside(self, request: bytes, timeout: float) -> Any:
        """For somebody who stands in line and asks about something else: bells are kept."""
        (words,) = requests_in(request)
        return self._execute(words)

    def look_out(self) -> None: ...

    def set_timeout(self, timeout: float) -> None: ...

    def send(self, request: bytes) -> None:
        reply = self.call(request, 0.0)
        self._replies.append(reply)
        self.owed = len(self._replies)

    def reply(self) -> Any:
        reply = self._replies.popleft()
        self.owed = len(self._replies)
        return reply

    def park(self, owner: Owner, until: float) -> Bell | None:
        """Blocks until a bell for this owner, or until the time has come."""
        while (message := self._sleeper.sleep(until)) is not None:
            rung, bell = bell_in(message)
            if rung == owner:
                return bell
        return None

    def wake(self) -> None:
        """From another thread: ends the `park` under way, or the next, as if the time had come."""
        self._sleeper.wake(None)

    # For the keeper: everything is ready as soon as it was asked for.

    def fileno(self) -> int:
        return -1

    def stop_blocking(self) -> None: ...

    def push_out(self, data: bytes) -> bytes:
        for words in requests_in(data):
            self._replies.append(self._execute(words))
        return b""

    def pump(self) -> list[Any]:
        replies, self._replies = list(self._replies), deque()
        return replies

    def close(self) -> None:
        self._server.unsubscribe(self.inbox)

    def abandon(self) -> None: ...

    def __del__(self) -> None:
        if hasattr(self, "inbox"):  # an interrupt may have come before it had one
            self.close()


def open_link(server: Server, client: Client, runtime: "Runtime") -> Link:
    """Greets as on every connection: our record is written, and the server's time learned."""
    greeting = greet(client, user=None, password=None, db=0, name=None, protocol=3)
    request, _ = next(greeting)
    try:
        while True:
            # Listening is the link's own affair, as soon as it is there; all else is the server's.
            request, _ = greeting.send(
                [[] if words[0] == b"SUBSCRIBE" else server.execute(words) for words in requests_in(request)]
            )
    except StopIteration as stop:
        session: Session = stop.value
    return Link(server, session.inbox, runtime)
