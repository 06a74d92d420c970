"""A connection to one server of a cluster. It listens to channels of the names that its users wait for."""

import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base.clock import boottime
from holdtight.base.plan import CLOSED_BY_SERVER, NO_ANSWER, LinkDown, ServerSaid
from holdtight.stores.redis.followed_link import FollowedLink
from holdtight.stores.redis.link import NOTHING
from holdtight.stores.redis.resp import command

if TYPE_CHECKING:
    from holdtight.stores.redis.cluster_node import ClusterNodePlace

__all__ = ["MOST_LINK_CHANNELS", "ClusterLink"]

MOST_LINK_CHANNELS = 64
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)
_SENT_AND_HEARD = struct.Struct("=44x2I2I")
"""How long ago (ms) data and an acknowledgement were sent, and received, in the kernel's struct tcp_info."""
_Push = hiredis.PushNotification


class ClusterLink(FollowedLink):
    """`node` is the place of its server. `channels` has what it listens to, the oldest first."""

    __slots__ = ("_plainly", "channels", "node")

    node: "ClusterNodePlace"

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.channels: dict[bytes, None] = {}
        self._plainly = gets = self._gets
        channels = self.channels

        def noting(decode: bool = True) -> Any:
            """The server ends a subscription when the slot leaves, and says so before or after any reply."""
            item = gets(decode)
            if item.__class__ is _Push and item[0] == b"sunsubscribe":
                channels.pop(item[1], None)
            return item

        self._gets = noting

    def unanswered(self) -> float:
        """For how many seconds the server has sent nothing since the last request. Asks the kernel: so it costs the
        requests nothing, and any thread may call it. 0 where the kernel does not tell."""
        if _TCP_INFO is not None:
            with suppress(OSError, struct.error):  # it was closed meanwhile
                told = self.sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _SENT_AND_HEARD.size)
                asked, _, heard, _ = _SENT_AND_HEARD.unpack(told)
                return float(asked) / 1000 if asked < heard else 0.0
        return 0.0

    def stop_blocking(self) -> None:
        """From now on another class reads it, which hears of subscriptions by itself."""
        super().stop_blocking()
        self._gets = self._plainly

    def listen(self, channel: bytes, timeout: float) -> None:
        """Listens to one more channel. Raises ServerSaid if the server refuses, LinkDown if it does not answer."""
        request = command("SSUBSCRIBE", channel)
        if len(self.channels) >= MOST_LINK_CHANNELS:
            oldest = next(iter(self.channels))
            del self.channels[oldest]
            request = command("SUNSUBSCRIBE", oldest) + request
        until = boottime() + timeout
        self.set_timeout(timeout)
        self.send(request)
        self._unread = True
        while True:
            item = self._gets()
            if item is NOTHING:
                self._read_more(until)
            elif item.__class__ is not _Push:
                self.owed -= 1
                raise ServerSaid(str(item))
            elif item[0] == b"ssubscribe" and item[1] == channel:
                break
            elif item[0] != b"sunsubscribe":
                self._kept.append(item)
        self.owed -= 1
        self.channels[channel] = None

    def _read_more(self, until: float) -> None:
        left = until - boottime()
        if left <= 0:
            raise LinkDown(NO_ANSWER, sent=False, silent=True)
        self.set_timeout(left)
        try:
            data = self._read(self.fd, 8192)
        except OSError as error:
            raise LinkDown(error.strerror or str(error), sent=False, silent=True) from error
        if not data:
            raise LinkDown(CLOSED_BY_SERVER, sent=False)
        self._feed(data)
