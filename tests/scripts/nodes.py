"""One node of a quorum, asked for its vote without a client."""

from __future__ import annotations

from typing import Any

from holdtight.stores.redis import keys, script
from holdtight.stores.redis.handshake import passport
from holdtight.stores.redis.quorum_store import AGREE, BLESS, RESIGN, VOTE
from holdtight.stores.redis.script import Script
from tests.scripts.clockwork import on_test_clock
from tests.scripts.workbench import FAR, Wire
from tests.support.servers import RunningServer

SECOND = 1_000_000
NAMES = keys.keys_of("ht", "name")
MAIN, QUEUE, WAITERS, HOLDERS = NAMES
WATCHERS, STAMP, AUDIT = keys.watchers(MAIN), keys.stamp("ht"), keys.audit("ht")
SHORT_CUT = b"if mode == 'x' and waiter ~= ''"


class Node:
    run_id = b""
    """Of votes that do not say."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.wire = Wire(server)

    def run(self, asked: Script, names: tuple[bytes, ...], *args: Any) -> Any:
        return self.wire.call("EVAL", asked.body, len(names), *names, *args)

    def vote(
        self,
        who: bytes,
        *,
        mode: str = "x",
        ttl: int = 10_000,
        proposal: int | None = None,
        max_ttl: int = 60_000,
        waiter: bytes | None = None,
        inbox: bytes = b"",
        run: bytes | None = None,
        vouching: bool = False,
        not_after: int = FAR,
    ) -> Any:
        """`vouching`: the request says that the guard has let a vote on this connection pass."""
        fence = self.now() if proposal is None else proposal
        rung = who if waiter is None else waiter
        names = (MAIN, STAMP)
        passed = b"+" * vouching + passport(max_ttl, self.run_id if run is None else run)
        return as_list(self.run(VOTE, names, mode, ttl + 10_000, "", rung, fence, inbox, passed, not_after, who))

    def renew(self, who: bytes, fence: int, **options: Any) -> Any:
        return self.vote(who, proposal=fence, waiter=b"", **options)

    def agree(self, who: bytes, fence: int) -> Any:
        return self.run(AGREE, NAMES, who, fence, 10_000)

    def resign(self, who: bytes) -> Any:
        return self.run(RESIGN, (MAIN,), who)

    def withdraw(self, who: bytes, marker: int = 0, *strictly: bytes) -> Any:
        """`strictly` is b"!", or nothing."""
        return self.run(script.WITHDRAW, NAMES, who, marker, *strictly)

    def bless(self, run: bytes, *, max_ttl: int = 60_000, not_after: int = FAR) -> Any:
        return self.run(BLESS, (STAMP, AUDIT), b"", passport(max_ttl, run), not_after, "id", "{}")

    def now(self) -> int:
        seconds, micros = self.wire.call("TIME")
        return int(seconds) * SECOND + int(micros)

    def left(self, key: bytes = MAIN) -> int:
        return int(self.wire.call("PTTL", key))


class ClockworkNode(Node):
    """A node with a clock that the test sets, in seconds."""

    cut = False
    """Sends votes without the script's short cut."""

    def run(self, asked: Script, names: tuple[bytes, ...], *args: Any) -> Any:
        text = asked.body.replace(SHORT_CUT, b"if false and mode") if self.cut else asked.body
        return self.wire.call("EVAL", on_test_clock(text), len(names), *names, *args)

    def everything(self) -> dict[bytes, Any]:
        """Everything on the server except the clock and the records of what operators did."""
        reads = {b"string": ("GET",), b"hash": ("HGETALL",), b"zset": ("ZRANGE", 0, -1, "WITHSCORES")}
        found: dict[bytes, Any] = {}
        for key in set(self.wire.call("KEYS", "*")) - {AUDIT}:
            verb, *rest = reads[self.wire.call("TYPE", key)]
            found[key] = self.wire.call(verb, key, *rest)
        return found

    def at(self, seconds: float) -> int:
        now = 1_800_000_000 * SECOND + round(seconds * SECOND)
        self.wire.call("SET", "~clock", now)
        return now

    def now(self) -> int:
        return int(self.wire.call("GET", "~clock"))


def as_list(reply: Any) -> Any:
    """Turns the usual yes, a text, into the long form."""
    return [1, reply[:16], int(reply[16:]) // 1000, b""] if isinstance(reply, bytes) else reply


def fence_of(reply: Any) -> int:
    assert reply[0] == 1, reply
    return int(reply[1])
