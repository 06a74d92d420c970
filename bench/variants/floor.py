"""The floor: a bare socket, requests packed beforehand, hiredis, `SET NX PX` and a checked delete.

No fence, no queue, no renewal, no error handling: the least that could be called a lock.
"""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit

import hiredis

from bench.variants import Variant
from bench.wire import pack

CHECKED_DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
OWNER = "0123456789abcdef0123456789abcdef"


class Link:
    """A socket and its parser."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def ask(self, request: bytes) -> object:
        self._socket.sendall(request)
        while True:
            self._reader.feed(self._socket.recv(65536))
            reply: object = self._reader.gets()
            if reply is not False:
                return reply

    def close(self) -> None:
        self._socket.close()


class Floor(Variant):
    PACKAGES = ("hiredis",)

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._local = threading.local()
        first = Link(url)
        sha = first.ask(pack("SCRIPT", "LOAD", CHECKED_DELETE))
        assert isinstance(sha, bytes)
        self._sha = sha
        first.close()
        self._packed: dict[str, tuple[bytes, bytes]] = {}

    def _link(self) -> Link:
        link: Link | None = getattr(self._local, "link", None)
        if link is None:
            link = self._local.link = Link(self.url)
        return link

    def pair(self, name: str) -> None:
        packed = self._packed.get(name)
        if packed is None:
            take = pack("SET", name, OWNER, "NX", "PX", 30000)
            packed = self._packed[name] = take, pack("EVALSHA", self._sha, 1, name, OWNER)
        link = self._link()
        if link.ask(packed[0]) != b"OK" or link.ask(packed[1]) != 1:
            raise RuntimeError(f"{name} was not free")


VARIANT = Floor
