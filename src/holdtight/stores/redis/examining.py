"""The requests behind `doctor`: what a server says about itself, what its user may do, and what the namespace has."""

import os
from collections.abc import Callable, Iterator, Sequence
from time import time
from typing import Any, NamedTuple, cast

from holdtight.base.plan import ServerSaid, Step
from holdtight.stores.client import Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.fields import cut
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import Script
from holdtight.stores.redis.survey import COUNT, START, is_held, name_of
from holdtight.stores.times import TAIL_MS

__all__ = ["EXAM_PATIENCE", "Examining", "Found"]

RIGHTS = Script("rights")
TIMES_LEFT = Script("times_left")
EXAM_PATIENCE = 1.0
_PASSING = ("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "max number of clients")


class Found(NamedTuple):
    """Of some main keys: which hold other programs' values, which have a holder, and the highest fence."""

    foreign: list[str]
    held: list[str]
    missing: list[str]
    fence: int
    fenced: str


class Examining:
    """One server, or one node of a quorum."""

    first = START

    def __init__(self, client: Client) -> None:
        self._client = client
        self._namespace = client.namespace

    def clock_step(self) -> Step:
        """How far the server's clock is ahead of ours, in seconds. The server is taken to read it halfway through the
        request's own round trip."""

        def read(reply: Any, sent: float) -> float:
            halfway = time() - (self._client.clock() - sent) / 2
            return int(reply[0]) + int(reply[1]) / 1e6 - halfway

        return _step(command("TIME"), read)

    def ping_step(self) -> Step:
        return _step(command("PING"), lambda reply, sent: True)

    def hello_step(self) -> Step:
        """The protocol that this connection speaks."""
        return _step(command("HELLO"), _protocol)

    def info_step(self) -> Step:
        return _step(command("INFO"), _pairs)

    def config_step(self, word: str) -> Step:
        def read(reply: Any, sent: float) -> str:
            return _text(_mapping(reply).get(word.encode(), b""))

        return _step(command("CONFIG", "GET", word), read)

    def size_step(self) -> Step:
        """The number of keys of the database."""
        return _step(command("DBSIZE"), lambda reply, sent: int(reply))

    def rights_step(self) -> Step:
        """Whether the connection has an inbox, and the commands that scripts of this user may not run."""
        main = self.rights_main()
        channel = self.rights_channel(main)
        # A node of a quorum gets the passport with the inbox.
        count = 7 + 1 + (self._client.max_ttl_ms is not None)
        start = RIGHTS.request((main, main + b":w", main + b":h", channel))
        before = b"*%d\r\n" % count + start.partition(b"\r\n")[2]

        def read(reply: Any, sent: float) -> tuple[bool, list[str]]:
            return bool(reply[0]), [_text(each) for each in reply[1:]]

        return Step(before, b"", read, patience=EXAM_PATIENCE, script=RIGHTS)

    def probes(self) -> Sequence[tuple[str, Step]]:
        """Commands that no script may run, each with a request that a user without the right to it is refused."""
        return ()

    def rights_main(self) -> bytes:
        """The key of a lock that nobody uses."""
        return keys.main_key(self._namespace, f"doctor {os.urandom(8).hex()}")

    def rights_channel(self, main: bytes) -> bytes:
        return self._namespace.encode() + b":inbox:doctor"

    def records_step(self) -> Step:
        own = keys.client_record(self._namespace, self._client.id)
        return _step(command("MGET", own, keys.waits(self._namespace, b"")), lambda reply, sent: True)

    def wait_step(self) -> Step:
        """Whether the user may wait for replicas; it waits for none."""
        return _step(command("WAIT", 0, 1), lambda reply, sent: True)

    def scan_step(self, cursor: bytes) -> Step:
        """Reads the next cursor, the number of keys of this namespace, and the names of locks among them."""

        def read(reply: Any, sent: float) -> tuple[bytes, int, list[str]]:
            names = [name_of(self._namespace, key) for key in reply[1]]
            return reply[0], len(names), [name for name in names if name is not None]

        pattern = self._namespace.encode() + b":*"  # a namespace has no character that means something here
        return _step(command("SCAN", cursor, "MATCH", pattern, "COUNT", COUNT), read)

    def values_step(self, names: Sequence[str]) -> Step:
        def read(reply: Any, sent: float) -> Found:
            found = Found([], [], [], 0, "")
            for name, value in zip(names, reply, strict=True):
                if value is None:
                    found.missing.append(name)
                elif is_held(value) or _is_tombstone(value):
                    if not _is_tombstone(value):
                        found.held.append(name)
                    exclusive = cut("KIND_OF", value) == b"x1"
                    fence = int(cut("FENCE_OF" if exclusive else "SHARED_FENCE_OF", value))
                    if fence > found.fence:
                        found = found._replace(fence=fence, fenced=name)
                else:
                    found.foreign.append(name)
            return found

        return _step(command("MGET", *self._mains(names)), read)

    def value_step(self, name: str) -> Step:
        """Answered with an error, WRONGTYPE, if the key is not a text."""
        return _step(command("GET", *self._mains([name])), lambda reply, sent: True)

    def is_passing(self, said: Any) -> bool:
        """Whether the server may answer soon."""
        return any(word in str(said) for word in _PASSING)

    def is_refused(self, said: Any) -> bool:
        """Whether this answer to a probe says that the user may not run the command, or that the server lacks it."""
        return "NOPERM" in str(said) or "unknown command" in str(said).lower()

    def is_foreign(self, said: Any) -> bool:
        """Whether this answer to a `value_step` says that the key is not a text."""
        return isinstance(said, ServerSaid) and "WRONGTYPE" in str(said)

    def parts(self, names: Sequence[str]) -> Iterator[Sequence[str]]:
        """Names that one `left_step` can ask for together."""
        yield names

    def left_step(self, names: Sequence[str]) -> Step:
        """The seconds left to the holders of these names."""
        request = TIMES_LEFT.request(self._mains(names), 0)
        return Step(
            request,
            None,
            lambda reply, sent: [(ms - TAIL_MS) / 1000 for ms in reply],
            patience=EXAM_PATIENCE,
            script=TIMES_LEFT,
        )

    def _mains(self, names: Sequence[str]) -> list[bytes]:
        return [keys.main_key(self._namespace, name) for name in names]


def _step(request: bytes, read: Callable[[Any, float], Any]) -> Step:
    return Step(request, None, read, patience=EXAM_PATIENCE)


def _is_tombstone(value: bytes) -> bool:
    return cut("KIND_OF", value) == b"t1" and len(value) == 19 and cut("SHARED_FENCE_OF", value).isdigit()


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _pairs(reply: Any, sent: float) -> dict[str, str]:
    lines = (line.partition(":") for line in _text(reply).splitlines())
    return {word: value.strip() for word, colon, value in lines if colon}


def _protocol(reply: Any, sent: float) -> int:
    return int(_mapping(reply).get(b"proto", 2))


def _mapping(reply: Any) -> dict[bytes, Any]:
    """RESP3 has maps, RESP2 lists of keys and values."""
    return (
        cast("dict[bytes, Any]", reply) if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    )
