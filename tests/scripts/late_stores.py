"""Where the world of late.py plays: a real server whose scripts run by the test's clock, or the memory store."""

from __future__ import annotations

from typing import Any, Protocol

import hiredis

from holdtight.stores.memory.server import Server
from holdtight.stores.redis import script
from holdtight.stores.redis.script import Script
from tests.scripts.clockwork import on_test_clock
from tests.scripts.workbench import Wire
from tests.support.framing import first_words
from tests.support.raw import ServerSaid as Refused
from tests.support.servers import RunningServer

__all__ = ["Backend", "MemoryBackend", "ServerBackend"]

SCRIPTS = [each for each in vars(script).values() if isinstance(each, Script)]


class Backend(Protocol):
    def begin(self) -> None: ...
    def set_clock(self, micros: int) -> None: ...
    def execute(self, request: bytes) -> Any:
        """The reply; an error reply is a value."""
        ...

    def time_left(self) -> dict[bytes, int | None]:
        """Every key with its time left in ms."""
        ...


class ServerBackend:
    def __init__(self, server: RunningServer) -> None:
        self.wire = Wire(server)
        self._known = {
            each.sha.encode(): self.wire.call("SCRIPT", "LOAD", on_test_clock(each.body)) for each in SCRIPTS
        }

    def begin(self) -> None:
        self.wire.call("FLUSHALL")

    def set_clock(self, micros: int) -> None:
        self._micros = micros
        self.wire.call("SET", "~clock", micros)

    def execute(self, request: bytes) -> Any:
        words = first_words(request)
        assert words[0] == b"EVALSHA", words
        try:
            return self.wire.call("EVALSHA", self._known[words[1]], *words[2:])
        except Refused as refused:
            return hiredis.ReplyError(str(refused))

    def time_left(self) -> dict[bytes, int | None]:
        flat: list[bytes] = self.wire.call("HGETALL", "~expiries")
        due = dict(zip(flat[::2], map(int, flat[1::2]), strict=True))
        now = self._micros // 1000
        found = {key: due[key] - now if key in due else None for key in self.wire.call("KEYS", "*")}
        return {key: left for key, left in found.items() if key[:1] != b"~" and (left is None or left >= 0)}

    def close(self) -> None:
        self.wire.close()


class MemoryBackend:
    def begin(self) -> None:
        self._server = Server(lambda: self._micros)

    def set_clock(self, micros: int) -> None:
        self._micros = micros

    def execute(self, request: bytes) -> Any:
        return self._server.execute(first_words(request))

    def time_left(self) -> dict[bytes, int | None]:
        return self._server.time_left()

    def close(self) -> None: ...
