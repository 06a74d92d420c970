"""A link to a server in this process: requests run at once, in the caller's thread.

Invariants:
- one thread at a time uses the link; bells come from any thread;
- a bell that arrives before a request runs is older than its reply and dropped; a later bell is kept for the next
  `park`.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base.plan import Bell
from holdtight.base.values import Owner
from holdtight.stores.client import Client
from holdtight.stores.memory.server import Hear, Server
from holdtight.stores.redis.handshake import Handshake, greet
from holdtight.stores.redis.link import bell_in
from holdtight.stores.redis.resp import bulk

if TYPE_CHECKING:
    from holdtight.base.runtime import Runtime

__all__ = ["MemoryLink", "open_link"]

_Reader = hiredis.Reader


def requests_in(data: bytes) -> list[list[bytes]]:
    """Parses requests with a new reader: an interrupted one would keep part of a request for the next call."""
    reader = _Reader()
    reader.feed(data)
    found: list[list[bytes]] = []
    while (argv := reader.gets()) is not False:
        found.append(argv)
    return found


class MemoryLink:
    """One connection after its handshake."""

    _heeded = b""

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
        """Subscribes `hear` to the inbox. `hear` must not refer to the link, or the link would never be collected."""
        self._server.subscribe(self.inbox, hear)

    def call(self, request: bytes, timeout: float) -> Any:
        self._sleeper.forget()
        (argv,) = requests_in(request)
        return self._execute(argv)

    def call_aside(self, request: bytes, timeout: float) -> Any:
        """For a queued waiter that asks about something else: bells are kept."""
        (argv,) = requests_in(request)
        return self._execute(argv)

    def call_all(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        return [self.call(request, timeout) for request in requests]

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
        """Called by another thread: ends the current `park`, or the next one, as if its time had come."""
        self._sleeper.wake(None)

    # For the keeper: replies are ready at once.

    def fileno(self) -> int:
        return -1

    def heed(self, channel: bytes, hear: Hear) -> bytes:
        self._heeded = channel
        self._server.subscribe(channel, hear)
        return b""

    def stop_blocking(self) -> None: ...

    def push_out(self, data: bytes) -> bytes:
        for argv in requests_in(data):
            self._replies.append(self._execute(argv))
        return b""

    def pump(self) -> list[Any]:
        replies, self._replies = list(self._replies), deque()
        return replies

    def close(self) -> None:
        self._server.unsubscribe(self.inbox)
        if self._heeded:
            self._server.unsubscribe(self._heeded)

    def abandon(self) -> None: ...

    def __del__(self) -> None:
        if hasattr(self, "inbox"):  # an interrupt may have ended __init__ before
            self.close()


def open_link(server: Server, client: Client, runtime: "Runtime") -> MemoryLink:
    """Runs the usual handshake: writes our record and learns the server's time."""
    greeting = greet(client, user=None, password=None, db=0, name=None, protocol=3)
    request, _ = next(greeting)
    try:
        while True:
            # The link subscribes itself when it is made; the server answers everything else.
            request, _ = greeting.send(
                [[] if argv[0] == b"SUBSCRIBE" else server.execute(argv) for argv in requests_in(request)]
            )
    except StopIteration as stop:
        handshake: Handshake = stop.value
    return MemoryLink(server, handshake.inbox, runtime)
