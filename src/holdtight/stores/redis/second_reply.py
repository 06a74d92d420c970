"""Two requests in one write, of which the second takes longer: WAIT, which the replicas answer. Part of a link."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import hiredis

from holdtight.stores.redis.failures import broken, closed_by_server, is_silence
from holdtight.stores.redis.spin import SpinWait

__all__ = ["NOTHING", "PIECE", "SecondReply"]

NOTHING: Any = object()
PIECE = 448
"""Bytes of a usual read: more than a usual reply or bell, and small enough for Python's small-object allocator."""
_Push = hiredis.PushNotification


class SecondReply(ABC):
    __slots__ = ("_unread", "owed")

    sock: socket.socket
    fd: int
    owed: int
    second_spin_wait: SpinWait | None
    _feed: Callable[[bytes], object]
    _gets: Callable[..., Any]
    _has_data: Callable[[], bool]
    _read: Callable[[int, int], bytes]
    _kept: list[Any]
    _timeout: float
    _unread: bool

    @abstractmethod
    def call(self, request: bytes, timeout: float) -> Any: ...
    @abstractmethod
    def reply(self, *, keep: bool = False) -> Any: ...
    @abstractmethod
    def set_timeout(self, timeout: float) -> None: ...

    def call_twice(self, requests: bytes, timeout: float) -> tuple[Any, Any]:
        """As `call`, for two requests in one write. Bells between the replies are kept for the next park."""
        first = self.call(requests, timeout)
        self.owed = 1
        gets, spin = self._gets, self.second_spin_wait
        reply: Any = gets() if self._unread else NOTHING
        if reply is NOTHING:
            try:
                if spin is not None and spin.looking:
                    data = spin.read(self.sock.recv, PIECE)
                else:
                    data = self._read(self.fd, PIECE)
            except OSError as error:
                if self._timeout >= timeout or not is_silence(error):
                    raise broken(error) from error
                self.set_timeout(timeout - self._timeout)
                return first, self.reply(keep=True)
            if not data:
                raise closed_by_server()
            self._unread = True
            try:
                self._feed(data)
                reply = gets()
            except hiredis.ProtocolError as error:
                raise broken(error) from error
        if reply.__class__ is _Push:
            self._kept.append(reply)
            reply = NOTHING
        if reply is NOTHING:
            self.set_timeout(timeout)
            return first, self.reply(keep=True)
        self.owed = 0
        self._unread = self._has_data()
        return first, reply
