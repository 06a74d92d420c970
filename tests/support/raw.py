"""A minimal client, to look at servers from outside: no pool, no retry, no client library."""

from __future__ import annotations

import socket
from typing import Any, Self

import hiredis

from tests.support.processes import PATIENCE

__all__ = ["RawClient", "ServerSaid"]


class ServerSaid(Exception):
    """An error reply."""


class RawClient:
    """One connection, requests and replies as they are, decoded; bytes that are not UTF-8 are escaped."""

    def __init__(self, address: tuple[str, int] | str, timeout: float = PATIENCE) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self._reader = hiredis.Reader(
            encoding="utf-8", errors="surrogateescape", replyError=ServerSaid, notEnoughData=NotImplemented
        )

    def send(self, *args: str | bytes | float) -> None:
        words = [arg if isinstance(arg, bytes) else str(arg).encode("utf-8", "surrogateescape") for arg in args]
        parts = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)]
        self.socket.sendall(b"".join(parts))

    def read(self) -> Any:
        """The next reply or pushed message; an error reply is returned, not raised."""
        while (reply := self._reader.gets()) is NotImplemented:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def call(self, *args: str | bytes | float) -> Any:
        self.send(*args)
        reply = self.read()
        if isinstance(reply, ServerSaid):
            raise reply
        return reply

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
