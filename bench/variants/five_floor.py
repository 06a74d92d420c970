"""The floor on five nodes: bare sockets, requests packed beforehand, polled until a majority has said yes.

No owner of its own, no fence, no lease, no deadline, no renewal, nothing for a node that fails. Later answers of the
minority are read and dropped, as in holdtight.
"""

from __future__ import annotations

import select
import socket
from urllib.parse import urlsplit

import hiredis

from bench.variants import Variant
from bench.variants.floor import CHECKED_DELETE, OWNER
from bench.wire import pack


class _Node:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = hiredis.Reader()
        self.unwanted = 0
        """The number of replies that no caller waits for: they come first."""


class FiveFloor(Variant):
    PACKAGES = ("hiredis",)

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._nodes = [_Node(each) for each in url.split(",")]
        self._majority = len(self._nodes) // 2 + 1
        self._by_fd = {node.socket.fileno(): node for node in self._nodes}
        self._poll = select.poll()
        for fd in self._by_fd:
            self._poll.register(fd, select.POLLIN)
        self._packed: dict[str, tuple[bytes, bytes]] = {}
        load = pack("SCRIPT", "LOAD", CHECKED_DELETE)
        for node in self._nodes:
            node.socket.sendall(load)
            node.reader.feed(node.socket.recv(65536))
            sha = node.reader.gets()
            assert isinstance(sha, bytes)
            self._sha = sha

    def pair(self, name: str) -> None:
        packed = self._packed.get(name)
        if packed is None:
            take = pack("SET", name, OWNER, "NX", "PX", 30000)
            packed = self._packed[name] = take, pack("EVALSHA", self._sha, 1, name, OWNER)
        self._ask(packed[0], b"OK")
        self._ask(packed[1], 1)

    def _ask(self, request: bytes, wanted: object) -> None:
        for node in self._nodes:
            node.unwanted += 1
            node.socket.send(request)
        yes = 0
        while yes < self._majority:
            for fd, _ in self._poll.poll():
                node = self._by_fd[fd]
                node.reader.feed(node.socket.recv(65536))
                reply: object = node.reader.gets()
                while reply is not False:
                    node.unwanted -= 1
                    if not node.unwanted:
                        if reply != wanted:
                            raise RuntimeError(f"not free: {reply!r}")
                        yes += 1
                    reply = node.reader.gets()

    def close(self) -> None:
        for node in self._nodes:
            node.socket.close()


VARIANT = FiveFloor
