"""One name on a real server, for tests of the scripts alone: no store, no plan, no transport in between.

    desk.attempt(ALICE)                      # runs attempt.lua as it is, and returns its reply as it is
    desk.pass_time(600)                      # moves the name's past back: no test sleeps
    desk.state()                             # what the server has, decoded

Time passes for one name only: `pass_time` takes that much off the time left of every key of the name, and
off every point of time written inside the waiters hash and the holders set. For the scripts, which know nothing
but the server's clock and what is stored, that is the same as waiting. Stored fences keep their value, so to them
the clock stands still, which is the harder case.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import hiredis

from holdtight.stores.memory.engine import HEARTBEAT, TAIL, Entry, Holder
from holdtight.stores.redis import script, wait_records
from holdtight.stores.redis.cohort import COHORT
from holdtight.stores.redis.keys import Keys, keys_of
from holdtight.stores.redis.script import Script
from tests.support.raw import RawClient, ServerSaid
from tests.support.servers import RunningServer

__all__ = [
    "ALICE",
    "BOB",
    "CAROL",
    "DAVE",
    "FAR",
    "HANDED_ON",
    "Desk",
    "Inbox",
    "State",
    "Wire",
    "fence_of",
    "in_line",
    "owner",
    "read_entry",
    "read_holder",
    "sharing",
]

FAR = 9_000_000_000_000_000
"""An arrival limit (µs) that no test reaches."""


def owner(word: str) -> bytes:
    """24 bytes, among them some that are not text, as of a real owner."""
    return (b"\x00\xff\r\n" + word.encode()).ljust(24, b"\x00")


ALICE, BOB, CAROL, DAVE = owner("alice"), owner("bob"), owner("carol"), owner("dave")
HANDED_ON = (1, 3)
"""The replies of a release that hands over; test_trust.py says when which of them comes."""


class Wire(RawClient):
    """Replies as bytes."""

    def __init__(self, server: RunningServer) -> None:
        super().__init__(("127.0.0.1", server.port))
        self._reader = hiredis.Reader(replyError=ServerSaid, notEnoughData=NotImplemented)


class Inbox:
    """A subscribed connection. `bells()` has all that was rung before the call: the server keeps order."""

    def __init__(self, server: RunningServer, *channels: bytes) -> None:
        self.wire = Wire(server)
        self.wire.call("HELLO", 3)
        self._early: list[tuple[bytes, bytes]] = []
        for channel in channels:
            self.subscribe(channel)

    def subscribe(self, channel: bytes, verb: str = "SUBSCRIBE") -> None:
        self.wire.send(verb, channel)
        while not (push := self.wire.read())[0].endswith(b"subscribe"):
            self._early.append((push[1], push[2]))

    def unsubscribe(self, channel: bytes) -> None:
        self.subscribe(channel, "UNSUBSCRIBE")

    def rung(self) -> list[tuple[bytes, bytes]]:
        """Channel and message of each bell since the last look."""
        heard, self._early = self._early, []
        self.wire.send("PING")
        while (push := self.wire.read()) != b"PONG":
            heard.append((push[1], push[2]))
        return heard

    def bells(self) -> list[bytes]:
        return [message for _, message in self.rung()]

    def close(self) -> None:
        self.wire.close()


@dataclass
class State:
    """What the server has of one name. Expiries are points of server time in ms, None without one."""

    value: bytes = b""
    main_until: int | None = None
    holders: list[Holder] = field(default_factory=list[Holder])
    """The sharers by expiry, dead or alive."""
    holders_until: int | None = None
    line: list[Entry] = field(default_factory=list[Entry])
    line_until: int | None = None
    markers: dict[bytes, int] = field(default_factory=dict[bytes, int])
    ordinals: dict[bytes, int] = field(default_factory=dict[bytes, int])
    floor: int = 0
    side_until: int | None = None

    @property
    def flagged(self) -> bool:
        return self.value[2:3] == b"q"

    @property
    def mode(self) -> str:
        return {b"x1": "x", b"s1": "r", b"p1": "p"}.get(self.value[:2], "")

    @property
    def owner(self) -> bytes | None:
        """The exclusive holder."""
        return self.value[3:27] if self.value[:2] == b"x1" else None

    @property
    def fence(self) -> int:
        return int(self.value[27:43] if self.owner else self.value[3:19])


class Desk:
    """The verbs, with defaults for arguments that tests seldom need."""

    def __init__(self, server: RunningServer, name: str = "name", namespace: str = "ht") -> None:
        self.server = server
        self.wire = Wire(server)
        self.keys: Keys = keys_of(namespace, name)

    def close(self) -> None:
        self.wire.close()

    # The scripts

    def run(self, what: Script, **args: bytes | str | int) -> Any:
        """The reply, or the error reply as a value. Arguments by the names in the script's header."""
        self.send(what, **args)
        return self.wire.read()

    def send(self, what: Script, **args: bytes | str | int) -> None:
        if "px" in what.argv:
            args["px"] = int(args["ttl"]) + TAIL
        assert set(args) in [set(what.argv[:count]) for count in range(what.needed, len(what.argv) + 1)]
        keys = [getattr(self.keys, name) for name in what.keys]
        given = [args[name] for name in what.argv if name in args]
        self.wire.send("EVAL", self.text_of(what), len(keys), *keys, *given)

    def text_of(self, what: Script) -> bytes:
        return what.body

    def attempt(
        self,
        who: bytes,
        *,
        ttl: int = 30_000,
        limit: int = 100,
        label: str = "",
        inbox: bytes = b"",
        not_after: int = FAR,
    ) -> Any:
        """By default joins the line as a polling waiter."""
        return self.run(script.ATTEMPT, owner=who, ttl=ttl, limit=limit, label=label, inbox=inbox, not_after=not_after)

    def attempt_cohort(self, who: bytes, *, ttl: int = 30_000, inbox: bytes = b"", not_after: int = FAR) -> Any:
        """Joins the line, as `attempt`; a grant comes with a range of fences."""
        return self.run(COHORT, owner=who, ttl=ttl, limit=100, label="", inbox=inbox, not_after=not_after)

    def ask(self, who: bytes, **how: Any) -> Any:
        """An attempt that does not join the line."""
        return self.attempt(who, limit=0, **how)

    def share(
        self,
        who: bytes,
        *,
        mode: str,
        n: int = 1,
        permits: int = 0,
        ttl: int = 30_000,
        limit: int = 100,
        label: str = "",
        inbox: bytes = b"",
        not_after: int = FAR,
    ) -> Any:
        claim: dict[str, Any] = {"mode": mode, "n": n, "permits": permits, "ttl": ttl, "label": label}
        return self.run(script.SHARE, owner=who, limit=limit, inbox=inbox, not_after=not_after, **claim)

    def read(self, who: bytes, **how: Any) -> Any:
        return self.share(who, mode="r", **how)

    def permit(self, who: bytes, n: int = 1, of: int = 2, **how: Any) -> Any:
        return self.share(who, mode="p", n=n, permits=of, **how)

    def downgrade(
        self, who: bytes, *, ttl: int = 30_000, label: str = "", not_after: int = FAR, marker: str | int = 0
    ) -> Any:
        """`marker`: a point of server time (ms), and behind it an ordinal if there is one."""
        own: dict[str, Any] = {"marker": marker} if marker else {}
        return self.run(script.DOWNGRADE, owner=who, ttl=ttl, label=label, not_after=not_after, **own)

    def release(self, who: bytes, **own: bytes) -> Any:
        return self.run(script.RELEASE, owner=who, **own)

    def renew(self, who: bytes, *, ttl: int = 30_000, not_after: int = FAR, ordinal: int = 0, marker: int = 0) -> Any:
        """With an ordinal, which the server remembers until `marker` (ms): two seconds by default."""
        own: dict[str, Any] = {"marker": f"{marker or self.now() + 2_000:013d}{ordinal}"} if ordinal else {}
        return self.run(script.RENEW, owner=who, ttl=ttl, not_after=not_after, **own)

    def touch(self, who: bytes, inbox: bytes = b"", **own: int) -> Any:
        return self.run(script.TOUCH, owner=who, inbox=inbox, **own)

    def withdraw(self, who: bytes, marker: int = 0, **own: bytes) -> Any:
        return self.run(script.WITHDRAW, owner=who, marker=marker, **own)

    # With the fence of the grant that is meant, as for owners from outside.

    def release_grant(self, who: bytes, fence: int) -> Any:
        return self.run(script.RELEASE, owner=who, inbox=b"", fence=b"%016d" % fence)

    def renew_grant(self, who: bytes, fence: int, ttl: int = 30_000, not_after: int = FAR) -> Any:
        return self.run(script.RENEW, owner=who, ttl=ttl, not_after=not_after, marker=b"", fence=b"%016d" % fence)

    def downgrade_grant(self, who: bytes, fence: int, ttl: int = 30_000, not_after: int = FAR) -> Any:
        terms: dict[str, Any] = {"ttl": ttl, "label": "", "not_after": not_after, "marker": b""}
        return self.run(script.DOWNGRADE, owner=who, fence=b"%016d" % fence, **terms)

    def adopt(self, old: bytes, new: bytes, *, ttl: int = 30_000, label: str = "", not_after: int = FAR) -> Any:
        return self.run(script.ADOPT, old=old, owner=new, ttl=ttl, label=label, not_after=not_after)

    def inspect(self, most: int = 500) -> Any:
        return self.run(script.INSPECT, most=most)

    def blockers(self, who: bytes) -> Any:
        return self.run(wait_records.BLOCKERS, waiter=who)

    # Looking

    def now(self) -> int:
        """The server's clock in ms."""
        return self.now_us() // 1000

    def now_us(self) -> int:
        seconds, micros = self.wire.call("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def time_left(self, key: bytes) -> int:
        return int(self.wire.call("PTTL", key))

    def expiry(self, key: bytes) -> int | None:
        left = self.time_left(key)
        return self.now() + left if left >= 0 else None

    def state(self) -> State:
        main, queue, waiters, holders = self.keys
        value: bytes = self.wire.call("GET", main) or b""
        ids: list[bytes] = self.wire.call("ZRANGE", queue, 0, -1)
        flat: list[bytes] = self.wire.call("HGETALL", waiters)
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        scores: list[bytes] = self.wire.call("ZRANGE", holders, 0, -1, "WITHSCORES")
        sharing = zip(scores[::2], map(int, scores[1::2]), strict=True)
        return State(
            value=value,
            main_until=self.expiry(main),
            holders=[read_holder(who, fields[b"h" + who], expiry) for who, expiry in sharing],
            holders_until=self.expiry(holders),
            line=[read_entry(each, fields[each]) for each in ids if each in fields],
            line_until=self.expiry(queue),
            markers={each[1:]: int(text[:13]) for each, text in fields.items() if is_marker(each)},
            ordinals={each[1:]: int(text[13:]) for each, text in fields.items() if is_marker(each) and text[13:]},
            floor=int(fields.get(b"f", 0)),
            side_until=self.expiry(waiters),
        )

    def dump(self) -> dict[bytes, tuple[bytes, bool]]:
        """Every key of the server with its content, and whether it will expire."""
        keys: list[bytes] = sorted(self.wire.call("KEYS", "*"))
        return {key: (self.wire.call("DUMP", key), self.time_left(key) >= 0) for key in keys}

    # Arranging

    def pass_time(self, ms: int) -> None:
        """As if everything of the name had been there for `ms` longer."""
        for key in self.keys:
            left = self.time_left(key)
            if left >= 0:
                self.wire.call("PEXPIRE", key, left - ms)
        if self.wire.call("TYPE", self.keys.waiters) == b"hash":
            self._age_hash(ms)
        if self.wire.call("TYPE", self.keys.holders) == b"zset":
            for who in self.wire.call("ZRANGE", self.keys.holders, 0, -1):
                self.wire.call("ZINCRBY", self.keys.holders, -ms, who)

    def _age_hash(self, ms: int) -> None:
        flat: list[bytes] = self.wire.call("HGETALL", self.keys.waiters)
        for each, text in zip(flat[::2], flat[1::2], strict=True):
            if len(each) == 24:
                expiry, joined = int(text[2:15]) - ms, int(text[24:37]) - ms
                older = text[:2] + b"%013d" % expiry + text[15:24] + b"%013d" % joined + text[37:]
                self.wire.call("HSET", self.keys.waiters, each, older)
            elif is_marker(each) or each == b"e":
                self.wire.call("HSET", self.keys.waiters, each, b"%013d%b" % (int(text[:13]) - ms, text[13:]))

    def crowd(
        self, number: int, *, dead: bool = False, inbox: bytes = b"", ttl: int = 30_000, mode: str = "x"
    ) -> list[bytes]:
        """That many more waiters, written directly, behind a holder; sets its flag."""
        here = [owner(f"{'dead' if dead else 'crowd'} {n}") for n in range(number)]
        now = self.now()
        expiry = now - 1 if dead else now + HEARTBEAT
        text = b"%b-%013d%09d%013d%02d%b" % (mode.encode(), expiry, ttl, now, len(inbox), inbox)
        text += b"%09d%09d" % (1, 2) if mode == "p" else b""
        last: list[bytes] = self.wire.call("ZRANGE", self.keys.queue, -1, -1, "WITHSCORES")
        first = int(float(last[1])) + 1 if last else 1
        self.wire.call("ZADD", self.keys.queue, *_flat([(first + n, each) for n, each in enumerate(here)]))
        self.wire.call("HSET", self.keys.waiters, *_flat([(each, text) for each in here]))
        self.wire.call("PEXPIRE", self.keys.queue, HEARTBEAT)
        self.wire.call("PEXPIRE", self.keys.waiters, HEARTBEAT)
        value: bytes = self.wire.call("GET", self.keys.main) or b""
        if value:
            self.wire.call("SET", self.keys.main, value[:2] + b"q" + value[3:], "KEEPTTL")
        return here

    def crowd_in(self, number: int, *, mode: str, dead: bool = False, ttl: int = 30_000) -> list[bytes]:
        """That many more sharers, written directly, each with one permit; beside one that is there already."""
        here = [owner(f"{'late' if dead else 'inside'} {n}") for n in range(number)]
        expiry = self.now() - 1 if dead else self.now() + ttl
        text = b"%b%09d%d" % (mode.encode(), 1, self.state().fence)
        self.wire.call("ZADD", self.keys.holders, *_flat([(expiry, each) for each in here]))
        self.wire.call("HSET", self.keys.waiters, *_flat([(b"h" + each, text) for each in here]))
        return here

    def put_tombstone(self, fence: int) -> None:
        """The state after a release. A fence ahead of the clock: as after the clock was set back."""
        memory = max(0, fence - self.now_us()) // 1000 + TAIL
        self.wire.call("SET", self.keys.main, b"t1-%d" % fence, "PX", memory)

    def put_held(self, who: bytes, fence: int, *, left: int = 30_000, label: bytes = b"") -> None:
        self.wire.call("SET", self.keys.main, b"x1-" + who + b"%d" % fence + label, "PX", left + TAIL)


def _flat(pairs: list[tuple[Any, Any]]) -> list[Any]:
    return [word for pair in pairs for word in pair]


def is_marker(field: bytes) -> bool:
    return len(field) == 25 and field.startswith(b"m")


def read_holder(who: bytes, text: bytes, expiry: int) -> Holder:
    return Holder(who, text[:1].decode(), int(text[1:10]), int(text[10:26]), text[26:], expiry)


def read_entry(who: bytes, text: bytes) -> Entry:
    size = int(text[37:39])
    mode, rest = text[:1].decode(), text[39 + size :]
    n, permits = (int(rest[:9]), int(rest[9:18])) if mode == "p" else (1, 0)
    return Entry(
        owner=who,
        passed_over=text[1:2] != b"-",
        expiry=int(text[2:15]),
        ttl=int(text[15:24]),
        joined=int(text[24:37]),
        inbox=text[39 : 39 + size],
        label=rest[18:] if mode == "p" else rest,
        mode=mode,
        n=n,
        permits=permits,
    )


def sharing(desk: Desk) -> list[bytes]:
    """The live sharers in the order of their fences."""
    now = desk.now()
    alive = [holder for holder in desk.state().holders if holder.expiry > now]
    return [holder.owner for holder in sorted(alive, key=lambda holder: holder.fence)]


def in_line(desk: Desk) -> list[bytes]:
    return [entry.owner for entry in desk.state().line]


def fence_of(reply: Any) -> int:
    """The fence of a grant, in either form."""
    assert isinstance(reply, bytes) or (isinstance(reply, list) and reply[0] == 1), f"no grant: {reply!r}"
    return int(reply if isinstance(reply, bytes) else reply[1])
