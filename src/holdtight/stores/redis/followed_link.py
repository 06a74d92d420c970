"""A connection that another thread may end: its server was replaced.

To shut down the socket is not enough: what has arrived stays readable, and a thread or a loop that could not run for a
while would take the old server's word for a grant. So nothing that is read counts once the link was cut.
"""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from holdtight.stores.redis.failures import closed_by_server
from holdtight.stores.redis.link import SocketLink

__all__ = ["FollowedLink"]


class FollowedLink(SocketLink):
    """A link that the scout may end while a thread uses it."""

    __slots__ = ("guard", "was_cut")

    def __init__(self, sock: socket.socket) -> None:
        self.guard = threading.RLock()  # held while closing: the number of a closed socket may be in use again
        self.was_cut = False
        super().__init__(sock)

    def cut(self) -> None:
        """Called by another thread: reads end, also of what has arrived, and writes fail."""
        with self.guard, suppress(OSError):
            self.was_cut = True
            self._read = self._bare[1] = _read_nothing
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # not the TLS method, which is not thread-safe

    # A thread may have read a reply before the cut and go on after it.

    def call(self, request: bytes, timeout: float) -> Any:
        reply = SocketLink.call(self, request, timeout)
        if self.was_cut:
            raise closed_by_server()
        return reply

    def reply(self, *, keep: bool = False) -> Any:
        reply = SocketLink.reply(self, keep=keep)
        if self.was_cut:
            raise closed_by_server()
        return reply

    def call_twice(self, requests: bytes, timeout: float) -> tuple[Any, Any]:
        replies = SocketLink.call_twice(self, requests, timeout)
        if self.was_cut:
            raise closed_by_server()
        return replies

    def call_all(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        replies = SocketLink.call_all(self, requests, timeout)
        if self.was_cut:
            raise closed_by_server()
        return replies

    def pump(self) -> list[Any]:
        items = SocketLink.pump(self)
        if self.was_cut:
            raise closed_by_server()
        return items

    def close(self) -> None:
        with self.guard:
            super().close()

    def after_fork(self) -> None:
        self.guard = threading.RLock()  # a thread of the parent may have held it
        super().after_fork()


def _read_nothing(fd: int, size: int) -> bytes:
    return b""
