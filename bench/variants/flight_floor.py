"""The floor of a cached value: a bare socket, GET and PTTL in one write, packed beforehand, hiredis, JSON decoded.

Nobody computes anything: the least that could be called a look into a cache.
"""

from __future__ import annotations

import json
import socket
from typing import Any, ClassVar
from urllib.parse import urlsplit

import hiredis

from bench.variants import Variant
from bench.wire import pack


class FlightFloor(Variant):
    PACKAGES: ClassVar[tuple[str, ...]] = ("hiredis",)

    def __init__(self, url: str) -> None:
        super().__init__(url)
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()
        self._packed: dict[int, bytes] = {}

    def store(self, value: Any, count: int) -> None:
        for number in range(count):
            self._ask(pack("SET", f"floor:{number}", json.dumps(value, separators=(",", ":")), "PX", 600_000), 1)
            self._packed[number] = pack("GET", f"floor:{number}") + pack("PTTL", f"floor:{number}")

    def hit(self, number: int) -> Any:
        value, left = self._ask(self._packed[number], 2)
        if left <= 0:
            raise RuntimeError("the value is gone")
        return json.loads(value)

    def _ask(self, request: bytes, replies: int) -> list[Any]:
        self._socket.sendall(request)
        found: list[Any] = []
        while True:
            self._reader.feed(self._socket.recv(65536))
            while (reply := self._reader.gets()) is not False:
                found.append(reply)
            if len(found) == replies:
                return found

    def close(self) -> None:
        self._socket.close()


VARIANT = FlightFloor
