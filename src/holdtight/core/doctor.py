"""The plan behind `doctor`: reads what servers say about themselves, and judges what it means for locks.

It never raises and leaves no key. A server that does not answer, or a right that is missing, becomes a finding too.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from statistics import median
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from holdtight.base.operations import Finding, Severity
from holdtight.base.plan import LinkDown, Park, Plan, ServerSaid, Step, Wish
from holdtight.core.again import read_again
from holdtight.core.findings import finding, online_replicas
from holdtight.core.nodes import ask_all

if TYPE_CHECKING:
    from holdtight.base.operations import Around

__all__ = ["BUDGET", "Case", "doctor"]

BUDGET = 2.4
"""Seconds for the whole plan. It leaves out what it has not read by then."""
PAGE = 500
PINGS = 5
LOOK = 0.02
SLOW = 0.010
CLOCK_OFFSET = 5.0
FENCE_AHEAD = 1.0
OTHERS = 100_000
NEAR = 0.9
OLDEST = (6, 2)
UNEQUAL, TOO_UNEQUAL = 0.5, 1.0

Asked = Generator[Wish, Any, list[Any]]


class Examines(Protocol):
    """The requests to one server."""

    first: bytes
    """The cursor to begin with, which is also that of the end."""

    def clock_step(self) -> Step: ...
    def ping_step(self) -> Step: ...
    def hello_step(self) -> Step: ...
    def info_step(self) -> Step: ...
    def config_step(self, word: str) -> Step: ...
    def size_step(self) -> Step: ...
    def probes(self) -> Sequence[tuple[str, Step]]: ...
    def rights_step(self) -> Step: ...
    def records_step(self) -> Step: ...
    def wait_step(self) -> Step: ...
    def scan_step(self, cursor: bytes) -> Step: ...
    def values_step(self, names: Sequence[str]) -> Step: ...
    def value_step(self, name: str) -> Step: ...
    def is_passing(self, said: Any) -> bool: ...
    def is_refused(self, said: Any) -> bool: ...
    def is_foreign(self, said: Any) -> bool: ...
    def parts(self, names: Sequence[str]) -> Iterator[Sequence[str]]: ...
    def left_step(self, names: Sequence[str]) -> Step: ...


class Case(NamedTuple):
    """What `doctor` examines. `ttl` is the shortest and `longest` the longest ttl that is configured. `guarded` returns
    the seconds for which a node's restart guard still keeps it from voting."""

    nodes: Sequence[str]
    examines: Sequence[Examines]
    ttl: float
    longest: float
    clock: Callable[[], float]
    quorum: bool = False
    majority: int = 1
    guard: bool = True
    acks: int = 0
    forgets: bool = False
    """The server keeps no data by design, as the embedded one: no finding about persistence."""
    around: "Callable[[], Around | None]" = lambda: None
    """Starts to examine the servers around this one, such as replicas; None if there are none."""
    stamp_step: Step | None = None
    guarded: Callable[[int, Any], float] = lambda index, stamp: 0.0


def doctor(case: Case, budget: float = BUDGET) -> Plan[list[Finding]]:
    """`budget` is in seconds. A cluster examines its servers one after another and gives each a part of the whole."""
    exam = Exam(case, budget)
    yield from exam.run()
    return exam.found


class Exam:
    def __init__(self, case: Case, budget: float) -> None:
        self._case = case
        self._until = case.clock() + budget
        self.found: list[Finding] = []
        self._offsets: dict[int, float] = {}
        """How far the clock of each node is ahead of ours."""
        self._there: list[int] = []
        """The nodes that answer."""

    def run(self) -> Generator[Wish, Any, None]:
        case = self._case
        for at, said in enumerate((yield from self._ask([each.clock_step() for each in case.examines]))):
            if isinstance(said, float):
                self._there.append(at)
                self._offsets[at] = said
            else:
                self._not_there(at, said)
        if case.quorum:
            yield from self._as_a_quorum()
        around = case.around()
        infos = yield from self._everywhere(Exam._info)
        yield from self._everywhere(Exam._protocol_and_rights)
        for at in self._there:
            yield from self._speed(at)
            offset = self._offsets[at]
            if abs(offset) > CLOCK_OFFSET and around is None:
                self._note("CLOCK_OFFSET", at, f"its clock is {abs(offset):.3g} s {_side(offset)} ours")
            if infos.get(at, {}).get("role") != "slave":
                yield from self._keys(at)
        if around is not None:
            yield from self._replication(around, infos.get(0, {}))

    # Asking.

    def _ask(self, steps: Sequence[Step | None]) -> Asked:
        """Each server's answer, or the error in its place; None for one that is not asked."""
        left = max(0.05, self._until - self._case.clock())
        for step in steps:
            if step is not None:
                step.patience = min(step.patience, left)
        if not any(steps):
            return [None] * len(steps)
        if self._case.quorum:
            said: list[Any] = yield ask_all(steps)
            return said
        (step,) = steps
        assert step is not None
        try:
            return [(yield from read_again(step))]
        except Exception as error:  # also one that a credentials callable raises
            return [error]

    def _ask_one(self, at: int, step: Step) -> Generator[Wish, Any, Any]:
        steps: list[Step | None] = [None] * len(self._case.nodes)
        steps[at] = step
        return (yield from self._ask(steps))[at]

    def _everywhere(self, look: Any) -> Generator[Wish, Any, dict[int, Any]]:
        found: dict[int, Any] = {}
        for at in self._there:
            found[at] = yield from look(self, at)
        return found

    @property
    def _in_time(self) -> bool:
        return self._case.clock() < self._until

    def _note(self, id_: str, at: int | None, seen: str, **other: Any) -> None:
        node = self._case.nodes[at] if at is not None else None
        self.found.append(finding(id_, node, seen, **other))

    # Judging.

    def _not_there(self, at: int, said: Any) -> None:
        text = str(said)
        if isinstance(said, ServerSaid) and said.lacks_right:
            self._note("RIGHT_MISSING", at, f"it says: {text}")
        elif "SUBSCRIBE" in text and "allowed in this context" in text:
            self._note(
                "RESP2_ONLY",
                at,
                "it does not know HELLO",
                severity=Severity.ERROR,
                means="The handshake fails, so no lock can be had",
                change="Add ?protocol=2 to the URL; better, connect without the proxy that speaks RESP2 only",
            )
        elif isinstance(said, LinkDown) and "same server as" in text:
            self._note("SAME_SERVER", at, text)
        elif isinstance(said, LinkDown) or self._case.examines[at].is_passing(said):
            self._note("UNREACHABLE", at, text)
        else:
            self._note("REFUSED", at, f"it says: {text}")

    def _info(self, at: int) -> Generator[Wish, Any, dict[str, str]]:
        case, examines = self._case, self._case.examines[at]
        info: Any = yield from self._ask_one(at, examines.info_step())
        if not isinstance(info, dict):
            self._note("NOT_KNOWN", at, f"INFO is refused: {info}")
            return {}
        told = cast("dict[str, str]", info)
        version = told.get("redis_version", "")
        if _numbers(version) < OLDEST:
            self._note("OLD_SERVER", at, f"it is version {version}")
        if told.get("role") == "slave":
            master = f"{told.get('master_host')}:{told.get('master_port')}"
            self._note("READ_ONLY", at, f"it is a replica of {master}")
        most, policy = _number(told, "maxmemory"), told.get("maxmemory_policy", "noeviction")
        if most and policy != "noeviction":
            self._note("EVICTION", at, f"maxmemory is {most:.0f} and maxmemory-policy is {policy}")
        if most and _number(told, "used_memory") > NEAR * most:
            self._note("MEMORY_FULL", at, f"{_number(told, 'used_memory') / most:.0%} of maxmemory are used")
        clients, limit = _number(told, "connected_clients"), _number(told, "maxclients")
        if limit and clients > NEAR * limit:
            self._note("CLIENTS_NEAR_LIMIT", at, f"{clients:.0f} of at most {limit:.0f} clients are connected")
        if _number(told, "connected_slaves") and told.get("role") == "master" and not case.acks and not case.quorum:
            self._note("ASYNC_REPLICAS", at, f"it has {told['connected_slaves']} replicas")
        if told.get("role") == "master" and online_replicas(told) < case.acks:
            self._note("ACKS_UNREACHABLE", at, f"acks={case.acks}, and {online_replicas(told)} replicas are online")
        yield from self._memory(at, told)
        return told

    def _memory(self, at: int, info: dict[str, str]) -> Generator[Wish, Any, None]:
        """Whether the server keeps its data when it is restarted."""
        case, examines = self._case, self._case.examines[at]
        appends = info.get("aof_enabled") == "1"
        if case.quorum and not case.guard:
            fsync = (yield from self._ask_one(at, examines.config_step("appendfsync"))) if appends else ""
            if isinstance(fsync, Exception):
                self._note("NOT_KNOWN", at, f"CONFIG GET is refused: {fsync}")
            elif fsync != "always":
                how = f"appendfsync is {fsync}" if appends else "appendonly is off"
                self._note("FORGETFUL_NODE", at, f"the restart guard is off, and {how}")
        elif not case.quorum and not appends and not case.forgets:
            save = yield from self._ask_one(at, examines.config_step("save"))
            if isinstance(save, Exception):
                self._note("NOT_KNOWN", at, f"CONFIG GET is refused: {save}")
            elif not save:
                copied = info.get("role") == "master" and _number(info, "connected_slaves")
                id_ = "EMPTY_RESTART" if copied else "NO_PERSISTENCE"
                self._note(id_, at, "it keeps neither an append-only file nor snapshots")

    def _protocol_and_rights(self, at: int) -> Generator[Wish, Any, None]:
        examines = self._case.examines[at]
        protocol = yield from self._ask_one(at, examines.hello_step())
        if protocol != 3:
            said = f"it speaks RESP{protocol}" if isinstance(protocol, int) else f"it says to HELLO: {protocol}"
            self._note("RESP2_ONLY", at, said)
        rights = yield from self._ask_one(at, examines.rights_step())
        missing: list[str] = []
        if isinstance(rights, tuple):
            listens, missing = cast("tuple[bool, list[str]]", rights)
            if not listens and protocol == 3:
                missing = [*missing, "subscribe"]
        elif isinstance(rights, ServerSaid) and not examines.is_passing(rights):
            self._note("RIGHT_MISSING", at, f"scripts are refused: {rights}")
        for word, step in examines.probes():
            if examines.is_refused((yield from self._ask_one(at, step))):
                missing = [*missing, word]
        for word in missing:
            mild = {
                "publish": "Waiters are not woken: they look now and then",
                "subscribe": "Waiters are not woken: they look now and then",
                "spublish": "Waiters are not woken: they look now and then",
                "ssubscribe": "Waiters are not woken: they look now and then",
                "pubsub|numsub": "A killed waiter is noticed five seconds later, and may seem part of a deadlock",
                "pubsub|shardnumsub": "A killed waiter is noticed five seconds later, and may seem part of a deadlock",
            }.get(word)
            seen = f"the user may not run {word}"
            if mild:
                self._note("RIGHT_MISSING", at, seen, severity=Severity.WARNING, means=mild)
            else:
                self._note("RIGHT_MISSING", at, seen)
        records = yield from self._ask_one(at, examines.records_step())
        if isinstance(records, ServerSaid):
            means = "Errors and inspect() cannot say host and pid, and deadlocks are not found"
            self._note("RIGHT_MISSING", at, f"records: {records}", severity=Severity.WARNING, means=means)
        if self._case.acks:
            said = yield from self._ask_one(at, examines.wait_step())
            if isinstance(said, ServerSaid) and not examines.is_passing(said):
                self._note("RIGHT_MISSING", at, f"acks: {said}")

    def _speed(self, at: int) -> Generator[Wish, Any, None]:
        taken: list[float] = []
        for _ in range(PINGS):
            begun = self._case.clock()
            said = yield from self._ask_one(at, self._case.examines[at].ping_step())
            if said is True:
                taken.append(self._case.clock() - begun)
            elif not isinstance(said, ServerSaid):
                break  # silent: spend the time on the other servers
        limit = min(SLOW, self._case.ttl / 30)
        if taken and median(taken) > limit:
            self._note("SLOW", at, f"a request takes {median(taken) * 1000:.3g} ms, more than {limit * 1000:.3g} ms")

    def _keys(self, at: int) -> Generator[Wish, Any, None]:
        """Goes through the keys while there is time."""
        examines, cursor = self._case.examines[at], self._case.examines[at].first
        size = yield from self._ask_one(at, examines.size_step())
        own = seen = 0
        names: set[str] = set()
        while self._in_time:
            said = yield from self._ask_one(at, examines.scan_step(cursor))
            if isinstance(said, Exception):
                self._note("NOT_KNOWN", at, f"SCAN is refused: {said}")
                return
            cursor, number, some = said
            own, seen = own + number, seen + PAGE
            names.update(some)
            if cursor == examines.first:
                break
        if isinstance(size, int) and size > OTHERS:
            others = size - own if cursor == examines.first else size * (1 - own / max(seen, 1))
            if others > OTHERS:
                self._note("SHARED_KEYSPACE", at, f"the database has about {others:.0f} keys of others")
        yield from self._locks(at, sorted(names))

    def _locks(self, at: int, names: list[str]) -> Generator[Wish, Any, None]:
        case, examines = self._case, self._case.examines[at]
        foreign: list[str] = []
        blocked: tuple[float, str] = (0.0, "")
        fence, fenced = 0, ""
        for start in range(0, len(names), PAGE):
            if not self._in_time:
                break
            found = yield from self._ask_one(at, examines.values_step(names[start : start + PAGE]))
            if isinstance(found, Exception):
                return
            foreign += found.foreign
            for name in found.missing[:20]:
                said = yield from self._ask_one(at, examines.value_step(name))
                if examines.is_foreign(said):
                    foreign.append(name)
            fence, fenced = max((fence, fenced), (found.fence, found.fenced))
            for part in examines.parts(found.held):
                if not part or not self._in_time:
                    break
                left = yield from self._ask_one(at, examines.left_step(part))
                if isinstance(left, list):
                    blocked = max(blocked, *zip(cast("list[float]", left), part, strict=True))
        if foreign:
            more = f", and {len(foreign) - 1} more" if len(foreign) > 1 else ""
            self._note("FOREIGN_KEY", at, f"the key of {foreign[0]!r} holds another value{more}")
        if blocked[0] > case.longest * 1.01 + 1:
            seen = f"{blocked[1]!r} has {blocked[0]:.0f} s left, and the longest ttl here is {case.longest:g} s"
            self._note("PTTL_ABOVE_TTL", at, seen)
        ahead = fence / 1e6 - (time() + self._offsets[at])
        if ahead > FENCE_AHEAD:
            self._note("FENCE_AHEAD", at, f"the fence of {fenced!r} is {ahead:.3g} s ahead of its clock")

    def _replication(self, around: "Around", info: dict[str, str]) -> Generator[Wish, Any, None]:
        """Findings about replication; `info` is empty if the master did not answer."""
        from holdtight.core.doctor_replication import judge

        case = self._case
        least = (yield from self._ask_one(0, case.examines[0].config_step("min-replicas-to-write"))) if info else None
        while not around.done and self._in_time:
            yield Park(b"", min(self._until, case.clock() + LOOK))
        known = least if isinstance(least, str) else None
        seen = (around.sentinels, around.replicas, case.ttl)
        self.found += judge(case.nodes[0], info, self._offsets.get(0), known, *seen)

    # Of a quorum.

    def _as_a_quorum(self) -> Generator[Wish, Any, None]:
        case = self._case
        count, asleep = len(case.nodes), 0
        if case.stamp_step is not None:
            step = case.stamp_step
            stamps = yield from self._ask([step if at in self._there else None for at in range(count)])
            for at in self._there:
                left = case.guarded(at, stamps[at])
                if left > 0:
                    asleep += 1
                    self._note("GUARDED", at, f"it votes again in {left:.3g} s")
        if len(self._there) - asleep < case.majority:
            able = len(self._there) - asleep
            self._note("NO_MAJORITY", None, f"{able} of {count} nodes vote, and {case.majority} must")
        if count % 2 == 0:
            self._note("EVEN_QUORUM", None, f"it has {count} nodes")
        if len(self._offsets) > 1:
            middle = sorted(self._offsets.values())[len(self._offsets) // 2]
            for at, offset in self._offsets.items():
                apart = offset - middle
                if abs(apart) > UNEQUAL:
                    bad = Severity.ERROR if abs(apart) > TOO_UNEQUAL else Severity.WARNING
                    self._note(
                        "NODE_CLOCKS", at, f"its clock is {abs(apart):.3g} s {_side(apart)} the others'", severity=bad
                    )


def _side(offset: float) -> str:
    return "ahead of" if offset > 0 else "behind"


def _number(info: dict[str, str], word: str) -> float:
    try:
        return float(info.get(word, "0"))
    except ValueError:
        return 0.0


def _numbers(version: str) -> tuple[int, ...]:
    """An unknown version counts as new."""
    try:
        return tuple(int(part) for part in version.split(".")[:2]) or (99,)
    except ValueError:
        return (99,)
