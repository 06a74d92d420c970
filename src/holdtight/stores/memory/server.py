"""A server in this process that understands the requests of our clients.

It gets exactly what a Redis server would get, and gives the same replies: scripts by hash (run by `engine.py`, the
specification of the scripts), and the few plain commands that clients send. So everything above it is the same as with
a real server, and no code path exists for the memory store only.

Invariants:
- requests run one at a time, to their end. A signal handler or a finalizer may interrupt one in the same thread with
  a request of its own: on another name it runs, on the same name it is refused (BUSY);
- `_round` holds every stored key once. Requests check some of them and drop expired ones, so that a name that is used
  once does not stay;
- a subscriber is a function that does not keep its listener alive.
"""

import re
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis

from holdtight.base.plan import ServerSaid
from holdtight.stores.memory.engine import Name
from holdtight.stores.memory.shelf import Shelf
from holdtight.stores.memory.verbs import VERBS, Verb, attempt_cohort, take_all, value_of
from holdtight.stores.redis import forcing, script, wait_records
from holdtight.stores.times import AUDIT_MS

__all__ = ["Server"]

LOOKS = 4
"""How many stored keys a request checks after it has added one."""
IDLE_REQUESTS = 64
"""After this many requests, a request that has added no key also checks as many."""
RECORDS = 1000
REMEMBERED = 10_000
"""With more keys than this, the last fence of a free name is dropped early: this clock never goes back, so the next
fence is higher anyway."""

Hear = Callable[[bytes], object]
Error = hiredis.ReplyError


class Server:
    """One store. `micros` is its clock."""

    def __init__(self, micros: Callable[[], int]) -> None:
        self._micros = micros
        self.start_anew()

    def start_anew(self) -> None:
        """Sets an empty state: in a new server, and in a forked child, where a thread of the parent may have held the
        lock."""
        self._lock = threading.RLock()
        self._under_way: set[bytes] = set()
        self._names: dict[bytes, Name] = {}
        self._plain = Shelf()
        self._streams: dict[bytes, deque[tuple[bytes, list[bytes]]]] = {}
        """Audit records, newest first; they stay as long as the store."""
        self._hashes: Any = None
        self._round: deque[bytes] = deque()
        self._tidying = False
        self._ears: dict[bytes, Hear] = {}
        self._listening: set[bytes] = set()
        self.expected = 0
        """How many links are about to subscribe."""
        self.requests = 0
        """For people and tests."""

    # Subscriptions. Without the lock, since finalizers unsubscribe too.

    def subscribe(self, channel: bytes, hear: Hear) -> None:
        self._ears[channel] = hear
        self._listening.add(channel)

    def unsubscribe(self, channel: bytes) -> None:
        self._listening.discard(channel)
        self._ears.pop(channel, None)

    # Requests.

    def execute(self, argv: list[bytes]) -> Any:
        """Returns the reply; an error reply is a value, as from a link."""
        bells: list[tuple[bytes, bytes]] = []
        try:
            with self._lock:
                self.requests += 1
                now_us = self._micros()
                stored = len(self._round)
                reply = self._answer(argv, now_us, bells)
                if len(self._round) > stored or not self.requests % IDLE_REQUESTS:
                    self._tidy(now_us, LOOKS)
            return reply
        finally:
            for channel, message in bells:
                hear = self._ears.get(channel)
                if hear is not None:
                    hear(message)

    def _answer(self, argv: list[bytes], now_us: int, bells: list[tuple[bytes, bytes]]) -> Any:
        try:
            if argv[0] == b"EVALSHA" or argv[0] == b"EVAL":
                number = int(argv[2])
                return self._scripted(argv[1], argv[3 : 3 + number], argv[3 + number :], now_us, bells)
            return self._plainly(argv, now_us)
        except ServerSaid as said:
            return Error(str(said))
        except Exception as error:
            refused = Error(f"ERR {type(error).__name__}: {error}")
            refused.__cause__ = error
            return refused

    def _scripted(
        self, which: bytes, keys: list[bytes], args: list[bytes], now_us: int, bells: list[tuple[bytes, bytes]]
    ) -> Any:
        verb = VERBS.get(which)
        if verb is not None:
            return self._run(verb, keys[0], args, now_us, bells)
        if which in _MULTI:
            return self._run_on_all(keys[::4], args, now_us)
        if which in _FORCE:
            return self._force(keys, args, now_us, bells)
        if which in _RETRACT:
            value = self._get(keys[0], now_us // 1000)
            return int(value is not None and value.startswith(args[0]) and self._drop(keys[0], now_us // 1000))
        from holdtight.stores.memory.jobs import job_verb  # rarely needed: by jobs, and by locks with cohort=True

        job = job_verb(which)
        if job is not None:
            return self._run_job(job, keys, args, now_us)
        from holdtight.stores.redis.cohort import COHORT  # usually loaded with the lock object that sent this

        if which in (COHORT.sha.encode(), COHORT.body):
            return self._run(attempt_cohort, keys[0], args, now_us, bells)
        from holdtight.stores.memory.sessions import SCRIPTS  # rarely needed, too

        if which in SCRIPTS:
            return SCRIPTS[which](self._sessions, now_us // 1000, *keys, *args)
        return Error("NOSCRIPT No matching script.")

    def _name(self, key: bytes, now_us: int) -> Name:
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = Name(now_us, listening=self._listening)
            self._round.append(key)
        else:
            name.set_clock(now_us)
        return name

    def _run_on_all(self, keys: list[bytes], args: list[bytes], now_us: int) -> Any:
        if not self._under_way.isdisjoint(keys):
            return Error("BUSY the request that this one has interrupted is at the same name")
        try:
            self._under_way.update(keys)
            return take_all([self._name(key, now_us) for key in keys], args)
        finally:
            self._under_way.difference_update(keys)

    def _run(self, verb: Verb, key: bytes, args: list[bytes], now_us: int, bells: list[tuple[bytes, bytes]]) -> Any:
        if key in self._under_way:
            return Error("BUSY the request that this one has interrupted is at the same name")
        name: Name | None = None
        try:
            self._under_way.add(key)
            name = self._name(key, now_us)
            return verb(name, *args)
        finally:
            self._under_way.discard(key)
            if name is not None and name.bells:
                bells += name.bells
                name.bells = []

    def _run_job(self, job: Any, keys: list[bytes], args: list[bytes], now_us: int) -> Any:
        """`job` gets the lock and the values that are stored beside it."""
        main = keys[0][: keys[0].index(b"}") + 1]

        def run(name: Name) -> Any:
            return job(name, self._plain, keys, *args)

        try:
            return self._run(run, main, [], now_us, [])
        finally:
            self._note_new()

    def _force(self, keys: list[bytes], args: list[bytes], now_us: int, bells: list[tuple[bytes, bytes]]) -> Any:
        """As force.lua; a memory store is never a node of a quorum."""
        id_, not_after, _, _, _, about, *parts = args
        if now_us > int(not_after):
            return [-1, now_us // 1000]
        texts = dict(zip(parts[::3], parts[2::3], strict=True))
        alarms = dict(zip(parts[::3], parts[1::3], strict=True))

        def force(name: Name) -> Any:
            return name.force(id_, alarms)

        reply: Any = self._run(force, keys[0], [], now_us, bells)
        if isinstance(reply, Error) or reply[0] != 1:
            return reply
        owners: list[bytes] = reply[5:]
        of = dict(zip(parts[::3], zip(keys[5::2], keys[6::2], strict=True), strict=False))
        told = [self._get(key, now_us // 1000) or b"" for owner in owners for key in of.get(owner, ())]
        stream = self._streams.setdefault(keys[4], deque(maxlen=RECORDS))
        if all(fields[1] != id_ for _, fields in stream):
            holders = b"[%b]" % b",".join(texts[owner] for owner in owners)
            record = [b"id", id_, b"at", b"%d" % now_us, b"fence", reply[2], b"next", reply[3]]
            record += [b"holders", holders, b"about", about, *(part for each in told for part in (b"told", each))]
            stream.appendleft((b"%d-0" % (now_us // 1000), record))
        return [*reply, told] if of else reply

    @property
    def _sessions(self) -> Any:
        if self._hashes is None:
            from holdtight.stores.memory.sessions import Hashes  # for the lock service only

            self._hashes = Hashes(self._plain)
        return self._hashes

    def _plainly(self, argv: list[bytes], now_us: int) -> Any:
        now = now_us // 1000
        match argv:
            case [b"HGETALL", key]:
                return self._sessions.flat(key, now)
            case [b"HGET", key, field]:
                return self._sessions.field(key, field, now)
            case [b"PEXPIRE", key, time]:
                value = self._get(key, now)
                if value is not None:
                    self._put(key, value, now + int(time))
                return int(value is not None)
            case [b"SCAN", _, b"MATCH", pattern, *_, b"hash"]:
                return [b"0", self._sessions.matching(pattern, now)]
            case [b"SET", key, value]:
                self._put(key, value, None)
            case [b"SET", key, value, unit, time] if unit in _UNITS:
                self._put(key, value, now + int(time) * _UNITS[unit])
            case [b"SET", key, value, b"NX", b"EX", time]:
                if self._get(key, now) is not None:
                    return None
                self._put(key, value, now + int(time) * 1000)
            case [b"GET", key] | [b"GETEX", key, b"EX", _]:
                return self._get(key, now) or self._main(key)
            case [b"MGET", *keys]:
                return [self._get(key, now) or self._main(key) for key in keys]
            case [b"PTTL", key]:
                left = self._left(key, now_us)
                return left if left != -2 else self._sessions.left(key, now)
            case [b"DEL", *keys]:
                return sum(self._drop(key, now) or self._sessions.drop(key, now) for key in keys)
            case [b"SCAN", _, b"MATCH", pattern, *_]:
                # Clients ask for what starts with a text and ends in "*}".
                start = _unescaped(pattern.removesuffix(b"*}"))
                return [b"0", [key for key, name in self._names.items() if name.main and key.startswith(start)]]
            case [b"XADD" | b"XRANGE" | b"HINCRBY" | b"EXPIRE", *_]:
                return self._sessions.more(argv, self._streams, now)
            case [b"XREVRANGE", key, b"+", b"-", b"COUNT", count]:
                return [list(entry) for entry in self._streams.get(key, ())][: int(count)]
            case [b"TIME"]:
                return [b"%d" % (now_us // 1_000_000), b"%d" % (now_us % 1_000_000)]
            case [b"HELLO", *_]:
                return [b"server", b"holdtight", b"proto", 3]
            case _:
                return Error(f"ERR unknown command '{argv[0].decode(errors='replace')}'")
        return b"OK"

    # Stored keys.

    def _put(self, key: bytes, value: bytes, until: int | None) -> None:
        self._plain.put(key, value, until)
        self._note_new()

    def _note_new(self) -> None:
        """Every stored key takes its place in the round."""
        self._round.extend(self._plain.added)
        self._plain.added.clear()

    def _drop(self, key: bytes, now: int) -> bool:
        return self._plain.drop(key, now)

    def _get(self, key: bytes, now: int) -> bytes | None:
        return self._plain.get(key, now)

    def _left(self, key: bytes, now_us: int) -> int:
        """As the reply of PTTL."""
        name = self._names.get(key)
        if name is None:
            return self._plain.left(key, now_us // 1000)
        name.set_clock(now_us)
        return name.main.until - name.now if name.main else -2

    def _main(self, key: bytes) -> bytes | None:
        """The main value of a lock, for error messages that name the holder. Only reads: does not set the clock."""
        name = self._names.get(key)
        return value_of(name) if name is not None else None

    def _tidy(self, now_us: int, looks: int) -> None:
        if self._tidying:
            return
        try:
            self._tidying = True
            for _ in range(min(looks, len(self._round))):
                key = self._round[0]
                if self._counts(key, now_us):
                    self._round.rotate(-1)
                else:
                    self._names.pop(key, None)
                    self._plain.forget(key)
                    self._round.popleft()
        finally:
            self._tidying = False

    def _counts(self, key: bytes, now_us: int) -> bool:
        name = self._names.get(key)
        if name is None:
            return self._plain.get(key, now_us // 1000) is not None
        if key in self._under_way:
            return True
        name.set_clock(now_us)
        if name.markers:
            name.drop_lapsed_markers()
        if name.line or name.markers or name.holders or name.forced:
            return True
        if name.main is None:
            return name.last != 0
        return name.main.owner is not None or name.last >= now_us or len(self._round) < REMEMBERED

    # For people and tests.

    def forget_everything(self) -> None:
        """Acts like a real server that lost its data; subscriptions stay."""
        with self._lock:
            self._names.clear()
            self._plain = Shelf()
            self._streams.clear()
            self._round.clear()
            self._hashes = None

    def time_left(self) -> dict[bytes, int | None]:
        """Every key that a real server would have now, with its ms left."""
        with self._lock:
            now_us = self._micros()
            now = now_us // 1000
            found: dict[bytes, int | None] = dict.fromkeys(self._streams, AUDIT_MS)
            found |= self._plain.time_left(now)
            for key, name in self._names.items():
                name.set_clock(now_us)
                if name.main:
                    found[key] = name.main.until - now
                if name.line:
                    found[key + b":q"] = name.line_until - now
                if name.holders:
                    found[key + b":h"] = name.holders_until - now
                markers = name.live_markers()
                if name.line or name.holders or markers or name.forced:
                    forced = [each.until for each in name.forced.values()]
                    ends = (name.line_until, name.holders_until if name.holders else 0, *markers.values(), *forced)
                    found[key + b":w"] = max(ends) - now
            return found

    @property
    def channels(self) -> list[bytes]:
        """The inboxes of all open links."""
        return list(self._listening)

    @property
    def empty(self) -> bool:
        """True if there are no links and no data. Never blocks: False while a request runs."""
        if self.expected or self._listening or not self._lock.acquire(blocking=False):
            return False
        try:
            self._tidy(self._micros(), len(self._round))
            return not self._round and not self._streams
        finally:
            self._lock.release()


def _unescaped(pattern: bytes) -> bytes:
    return re.sub(rb"\\(.)", rb"\1", pattern, flags=re.DOTALL)


_UNITS = {b"PX": 1, b"EX": 1000}
_MULTI = (script.MULTI.sha.encode(), script.MULTI.body)
_FORCE = (forcing.FORCE.sha.encode(), forcing.FORCE.body)
_RETRACT = (wait_records.RETRACT.sha.encode(), wait_records.RETRACT.body)
