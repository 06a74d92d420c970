"""A connection that another thread may end: its server was replaced."""

import socket
import threading
from contextlib import suppress

from holdtight.stores.redis.link import Link

__all__ = ["FollowedLink"]


class FollowedLink(Link):
    """A link that the scout may end while a thread uses it."""

    __slots__ = ("guard",)

    def __init__(self, sock: socket.socket) -> None:
        self.guard = threading.RLock()  # held while closing: the number of a closed socket may be in use again
        super().__init__(sock)

    def cut(self) -> None:
        """Called by another thread: reads end, and writes fail."""
        with self.guard, suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # not the TLS method, which is not thread-safe

    def close(self) -> None:
        with self.guard:
            super().close()

    def after_fork(self) -> None:
        self.guard = threading.RLock()  # a thread of the parent may have held it
        super().after_fork()
