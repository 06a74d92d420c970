"""`single_flight`: which call computes, what the others get, and what is stored. Both colours.

One call of one process holds the lock and computes: the *flight*. Other calls of its process wait for it in memory.
Other processes wait in line as readers, each with one place, so that all are granted together when the flight has
landed; then they find the value. The server checks what a flight stores: see lua/flight_land.lua.
"""

import copy
import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from holdtight.base.clock import seconds, wait_seconds
from holdtight.base.jobs import Peek
from holdtight.base.plan import Batch, LinkDown, Plan, ServerSaid
from holdtight.base.values import Late
from holdtight.config.profiles import UNSET
from holdtight.core.again import MOST_LATE, MOST_TRIES, asked_in_time, read_again
from holdtight.errors import DeadlockDetected, FlightFailed, LockError, LockTimeout
from holdtight.recipes.locking import PerName
from holdtight.recipes.once import LONGEST_KEPT, duration_kept, error_text

__all__ = [
    "BY_NAME",
    "MOST_IN_BACKGROUND",
    "NO_HIT",
    "Answer",
    "Computed",
    "FlightTerms",
    "Stored",
    "to_share",
    "waits_for",
]

BY_NAME: Any = object()
"""In place of a waiting time: the profile of the name decides."""
MOST_IN_BACKGROUND = 4
"""How many values one process computes at once in the background."""
NO_HIT: Any = object()


class Answer(NamedTuple):
    """What callers get: a value, or an exception."""

    value: Any = None
    error: BaseException | None = None

    def give(self) -> Any:
        """For one of many callers: each gets an exception of its own, with its own traceback."""
        if self.error is not None:
            raise _another(self.error)
        return self.value

    def give_own(self) -> Any:
        """For the one call that computed."""
        if self.error is not None:
            raise self.error
        return self.value


def _another(error: BaseException) -> BaseException:
    try:
        made = copy.copy(error)
    except Exception:
        made = error
    if type(made) is not type(error) or made is error:
        return error.with_traceback(None)
    made.__cause__, made.__suppress_context__ = error.__cause__, error.__suppress_context__
    return made


class Computed(NamedTuple):
    """The outcome of a flight. `own` is for the call that computed, `all` for the other calls of this process; None
    makes them start again. `failed` is the error of a flight whose callers got the stale value."""

    own: Answer
    all: Answer | None
    failed: str | None = None
    circle: bool = False
    """It could not wait: there is a deadlock. Callers that hold nothing are no part of it, and start again."""


def to_share(error: Exception, stale: Answer | None) -> Computed:
    """The outcome of a flight that could not begin to compute, as when the server cannot be reached: the others would
    only meet the same, one after another. Only the wait of the first caller says nothing about theirs."""
    if stale is not None and isinstance(error, LockError):
        return Computed(stale, stale)
    answer = Answer(error=error)
    circle = isinstance(error, DeadlockDetected)
    return Computed(answer, None if isinstance(error, LockTimeout) else answer, circle=circle)


_decode = json.JSONDecoder().raw_decode


class _Json:
    def dumps(self, value: Any) -> bytes:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()

    def loads(self, payload: bytes) -> Any:
        """Quicker than json.loads, which also allows blanks around the value."""
        text = str(payload, "utf-8")
        value, end = _decode(text)
        if end != len(text):
            raise ValueError("more than one JSON value")
        return value


class _Bytes:
    def dumps(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f'codec="bytes" takes bytes, not {type(value).__name__}')
        return bytes(cast(Any, value))

    def loads(self, payload: bytes) -> Any:
        return payload


_CODECS: dict[object, Any] = {"json": _Json(), "bytes": _Bytes()}


class Stored(NamedTuple):
    """What is stored, decoded."""

    answer: Answer | None
    fresh: bool
    age: float
    failure: str | None


class FlightTerms:
    """The options of one `single_flight`, checked."""

    def __init__(self, locks: Any, **given: Any) -> None:
        self.locks = locks
        locks.place.check_supports("single_flight", None)
        self.ttl = duration_kept(given["ttl"], "ttl")
        self.stale = seconds(given["stale"], "stale")
        self.error_ttl = seconds(given["error_ttl"], "error_ttl")
        for word, number in (("ttl and stale together", self.ttl + self.stale), ("error_ttl", self.error_ttl)):
            if number > LONGEST_KEPT:
                raise ValueError(f"{word} must be at most 366 days, not {number:g} s")
        self.negative: dict[type[Exception], float] = {}
        for kind, kept in dict(given["negative"] or {}).items():
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise TypeError(f"negative: {kind!r} is not an exception class")
            self.negative[kind] = duration_kept(kept, f"negative[{kind.__name__}]")
        if given["refresh"] not in ("caller", "background"):
            raise ValueError(f'refresh={given["refresh"]!r} must be "caller" or "background"')
        self.in_background = given["refresh"] == "background"
        codec = given["codec"]
        self._codec: Any = _CODECS.get(codec) if isinstance(codec, str) else codec
        if not all(callable(getattr(self._codec, word, None)) for word in ("dumps", "loads")):
            raise ValueError(f'codec={codec!r} must be "json", "bytes", or have dumps and loads')
        self._for_args: Any = _CODECS["json"] if codec == "bytes" else self._codec
        self.max_size = given["max_size"]
        if isinstance(self.max_size, bool) or not isinstance(self.max_size, int) or self.max_size < 1:
            raise ValueError(f"max_size={self.max_size!r} must be a number of bytes, at least 1")
        self._clock: Callable[[], float] = locks.place.clock
        self.values_of: Callable[[str], Any] = PerName(locks.place.flight_values).of

    # Looking.

    def look(self, name: str) -> Plan[Stored]:
        values = self.values_of(name)
        replies: list[Any] = yield from read_again(Batch(values.look_steps()))
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return self.stored(values, replies)

    def hit(self, values: Any, replies: list[Any]) -> Stored | None:
        """The fresh value that a quick look has found, without its age. None in every other case: then `look` tells."""
        value = self.fresh(values, replies)
        return None if value is NO_HIT else Stored(Answer(value), True, 0.0, None)

    def fresh(self, values: Any, replies: list[Any]) -> Any:
        """The same, the value alone; else NO_HIT."""
        payload = values.fresh(replies)
        if payload is None:
            return NO_HIT
        try:
            return self._codec.loads(payload)
        except Exception:
            return NO_HIT  # cannot be decoded

    def stored(self, values: Any, replies: list[Any]) -> Stored:
        found = values.read_look(replies)
        answer = self._decoded(found.kind, found.payload)
        return Stored(answer, found.fresh and answer is not None, found.age, found.failure)

    def _decoded(self, kind: str, payload: bytes) -> Answer | None:
        """None if the payload cannot be decoded: it counts as absent."""
        try:
            if kind == "v":
                return Answer(self._codec.loads(payload))
            if kind == "n":
                listed, _, args = payload.partition(b"\n")
                for each in self.negative:
                    if _type_name(each).encode() == listed:
                        return Answer(error=each(*self._for_args.loads(args)))
        except Exception:
            return None
        return None

    def peek(self, name: str) -> Plan[Peek | None]:
        found = yield from self.look(name)
        if found.answer is None:
            return None
        value = found.answer.value if found.answer.error is None else found.answer.error
        return Peek(value, found.age, "fresh" if found.fresh else "stale")

    def drop(self, name: str, how: str) -> Plan[bool]:
        values = self.values_of(name)
        said = yield from asked_in_time(lambda: values.drop_step(how, self._clock()))
        return bool(said)

    # Landing.

    def land(self, name: str, owner: bytes, outcome: Answer, stale: Answer | None) -> Plan[Computed]:
        """Stores what the call that holds the lock has computed. `stale` is the stored stale value, if any."""
        kind, payload, kept, shared = self._packed(name, outcome)
        own = outcome if outcome.error is not None else shared
        if kind != "f":
            stored = yield from self._store(name, owner, kind, payload, kept)
            return Computed(own, shared if stored else None)
        failed = None
        if stale is not None:
            own = shared = stale
            failed = payload.decode(errors="replace")
        if self.error_ttl:
            yield from self._store(name, owner, kind, payload, kept)
        return Computed(own, shared, failed)

    def unstored(self, name: str, outcome: Answer) -> Computed:
        """For a value that was computed without the server."""
        shared = self._packed(name, outcome)[3]
        return Computed(outcome if outcome.error is not None else shared, shared)

    def _packed(self, name: str, outcome: Answer) -> tuple[str, bytes, float, Answer]:
        """The kind to store, its bytes, how long it stays fresh, and what callers get: the bytes decoded again."""
        error = outcome.error
        try:
            if error is None:
                payload: Any = self._codec.dumps(outcome.value)
                payload = payload.encode() if isinstance(payload, str) else bytes(payload)
                self._fits(payload)
                return "v", payload, self.ttl, Answer(self._codec.loads(payload))
            for listed, kept in self.negative.items():
                if isinstance(error, listed):
                    args: Any = self._for_args.dumps(list(error.args))
                    args = args.encode() if isinstance(args, str) else bytes(args)
                    self._fits(args)
                    shared = Answer(error=listed(*self._for_args.loads(args)))
                    return "n", _type_name(listed).encode() + b"\n" + args, kept, shared
        except Exception as refused:
            error = refused
            failed = FlightFailed.because(name, error_text(refused))
            return "f", error_text(refused).encode(errors="replace"), self.error_ttl, Answer(error=failed)
        text = error_text(error)
        return "f", text.encode(errors="replace"), self.error_ttl, Answer(error=FlightFailed.because(name, text))

    def _fits(self, payload: bytes) -> None:
        if len(payload) > self.max_size:
            raise ValueError(f"the value has {len(payload)} bytes, max_size allows {self.max_size}")

    def _store(self, name: str, owner: bytes, kind: str, payload: bytes, kept: float) -> Plan[bool]:
        """False if the server refused it or did not answer. Then only the call that computed the value gets it."""
        values, stale = self.values_of(name), self.stale if kind == "v" else 0.0
        failures = late = 0
        while failures < MOST_TRIES and late < MOST_LATE:
            step = values.land_step(owner, kind, payload, fresh=kept, stale=stale, now=self._clock())
            try:
                said = yield step
            except (LinkDown, ServerSaid):
                failures += 1
                continue
            if not isinstance(said, Late):
                return bool(said)
            late += 1
        return False


def waits_for(locks: Any, options: dict[str, Any]) -> Any:
    """How long a call waits: seconds, None for ever, or BY_NAME."""
    wait = options["wait"]
    if wait is not UNSET:
        return wait_seconds(wait)
    return BY_NAME if locks.settings.profiles else locks.settings.wait


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
