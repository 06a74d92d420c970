"""The targets: one `Target` a line of the printed table, in the order in which it is printed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    LOWER = "≤"
    HIGHER = "≥"


class Standing(Enum):
    """How a figure stands to its target."""

    STRETCH = "stretch"
    PASS = "pass"
    MISSED = "MISSED"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Target:
    key: str
    row: str
    what: str
    better: Better
    target: float
    stretch: float | None
    unit: str
    digits: int = 2

    def met_by(self, figure: float, bound: float) -> bool:
        return figure <= bound if self.better is Better.LOWER else figure >= bound

    def show(self, figure: float) -> str:
        number = f"{figure:,.{self.digits}f}"
        if self.unit == "×":
            return f"{number}×"
        return f"{number} {self.unit}".rstrip()

    def show_bound(self, bound: float | None) -> str:
        return "–" if bound is None else f"{self.better.value} {self.show(bound)}"


@dataclass(frozen=True, slots=True)
class Verdict:
    target: Target
    figure: float | None
    why_not: str = ""

    @property
    def standing(self) -> Standing:
        if self.figure is None:
            return Standing.NOT_MEASURED
        if not self.target.met_by(self.figure, self.target.target):
            return Standing.MISSED
        if self.target.stretch is not None and self.target.met_by(self.figure, self.target.stretch):
            return Standing.STRETCH
        return Standing.PASS

    def __str__(self) -> str:
        if self.standing is Standing.NOT_MEASURED:
            return "not measured"
        if self.standing is Standing.MISSED:
            return f"MISSED by {self._miss()}"
        return str(self.standing.value)

    def _miss(self) -> str:
        assert self.figure is not None
        gap = abs(self.figure - self.target.target)
        # A target near zero (bytes above a peer's) has no meaningful percentage.
        if self.target.unit == "×" or abs(self.target.target) >= 20:
            return f"{100 * gap / abs(self.target.target):.1f}%"
        return self.target.show(gap)


L, H = Better.LOWER, Better.HIGHER
TARGETS: tuple[Target, ...] = (
    Target("new.same.threads.1", "new_name", "new name vs same name, processor time, one thread", L, 1.25, 1.15, "×"),
    Target("new.same.tasks.64", "new_name", "… asyncio, 64 tasks", L, 1.25, 1.15, "×"),
    Target("new.threads.1", "new_name", "new names, less processor time than redis-py, one thread", H, 2, 2.3, "×"),
    Target("new.threads.16", "new_name", "… 16 threads", H, 3.5, 4.3, "×"),
    Target("new.threads.64", "new_name", "… 64 threads", H, 4, 5, "×"),
    Target("new.tasks.1", "new_name", "… one asyncio task", H, 2, 2.4, "×"),
    Target("new.tasks.64", "new_name", "… 64 tasks", H, 9, 11, "×", 1),
    Target("new.tasks.1024", "new_name", "… 1024 tasks", H, 7, 9.5, "×", 1),
    Target("new.rate.tasks.64", "new_name", "new names, rate vs redis-py, 64 tasks", H, 8, 11, "×", 1),
    Target("new.rate.tasks.1024", "new_name", "… 1024 tasks", H, 8, 11, "×", 1),
    Target("new.processes.4", "new_name", "new names, less processor time than redis-py, 4 forks", H, 2, None, "×"),
    Target("new.instructions", "new_name", "new name vs same name, instructions, 64 tasks", L, 1.2, 1.15, "×"),
    Target("new.turns", "new_name", "one asyncio task, waits of the event loop per request", L, 2, 1, ""),
    Target("peers.tasks.64", "peers", "new names, 64 tasks, less processor time than the best peer", H, 1, None, "×"),
    Target("pair.floor.across", "pair", "sync pair vs floor, across cores", L, 1.3, 1.15, "×"),
    Target("pair.floor.onecore", "pair", "sync pair vs floor, one core", L, 1.8, 1.45, "×"),
    Target("pair.redis_py.across", "pair", "… faster than redis-py, across cores", H, 1.4, 1.6, "×"),
    Target("pair.redis_py.onecore", "pair", "… faster than redis-py, one core", H, 2.5, 3.3, "×"),
    Target("pair.floor.across.new", "pair", "new names: sync pair vs floor, across cores", L, 1.4, None, "×"),
    Target("pair.floor.onecore.new", "pair", "… one core", L, 2.0, None, "×"),
    Target("pair.redis_py.across.new", "pair", "… faster than redis-py, across cores", H, 1.4, None, "×"),
    Target("pair.redis_py.onecore.new", "pair", "… faster than redis-py, one core", H, 2, None, "×"),
    Target("kinds.reader.across", "kinds", "read pair vs exclusive pair, across cores", L, 1.4, None, "×"),
    Target("kinds.reader.onecore", "kinds", "… one core", L, 1.4, None, "×"),
    Target("kinds.permit.across", "kinds", "semaphore pair vs exclusive pair, across cores", L, 1.4, None, "×"),
    Target("kinds.permit.onecore", "kinds", "… one core", L, 1.4, None, "×"),
    Target("kinds.reader.across.new", "kinds", "new names: read vs exclusive pair, across cores", L, 1.4, None, "×"),
    Target("kinds.reader.onecore.new", "kinds", "… one core", L, 1.4, None, "×"),
    Target("kinds.permit.across.new", "kinds", "… semaphore pair vs exclusive pair, across cores", L, 1.4, None, "×"),
    Target("kinds.permit.onecore.new", "kinds", "… one core", L, 1.4, None, "×"),
    Target("drop_in.across", "drop_in", "drop-in pair, faster than redis-py's, across cores", H, 1.6, None, "×"),
    Target("drop_in.onecore", "drop_in", "drop-in pair, faster than redis-py's, one core", H, 3.0, None, "×"),
    Target(
        "drop_in.across.new", "drop_in", "new names: drop-in, faster than redis-py, across cores", H, 1.6, None, "×"
    ),
    Target("drop_in.onecore.new", "drop_in", "… one core", H, 2.5, None, "×"),
    Target("threads.16", "threads", "16 threads, distinct names, vs redis-py", H, 4.5, 6, "×"),
    Target("threads.64", "threads", "64 threads, distinct names, vs redis-py", H, 4.5, 6, "×"),
    Target("asyncio.64", "asyncio", "asyncio, 64 tasks, less processor time than redis-py", H, 10, 16, "×", 1),
    Target("asyncio.1024", "asyncio", "… 1024 tasks", H, 15, 20, "×", 1),
    Target(
        "asyncio.floor",
        "asyncio",
        "… busiest process: a floor with the same scripts vs ours",
        H,
        0.8,
        None,
        "×",
    ),
    Target("headline", "asyncio", "lock operations in a second of the busiest process", H, 120_000, 170_000, "/s", 0),
    Target("hot.changes", "hot", "hot lock, owner changes/s vs python-redis-lock", H, 1.4, 1.9, "×"),
    Target("hot.requests", "hot", "… client requests per hand-over", L, 3.1, 3.0, ""),
    Target("hot.jain", "hot", "… Jain fairness", H, 0.99, 0.999, "", 4),
    Target("cohort.tasks", "cohort", "one name, 64 tasks, hand-overs/s with cohort=True vs without", H, 15, 20, "×", 1),
    Target("cohort.processes", "cohort", "… 4 processes of 16 threads", H, 15, 20, "×", 1),
    Target("cohort.time", "cohort", "… less processor time a hand-over, 4 processes of 16 threads", H, 15, 20, "×", 1),
    Target("cohort.jain", "cohort", "… Jain fairness between the processes", H, 0.95, 0.99, "", 4),
    Target("cohort.longest", "cohort", "… longest wait of another process vs without", L, 3, 2, "×"),
    Target("wakeup.p50", "wakeup", "wake-up vs python-redis-lock, median", L, 0.8, 0.5, "×"),
    Target("wakeup.p99", "wakeup", "wake-up vs python-redis-lock, p99", L, 1.0, 0.5, "×"),
    Target("jobs.synchronized", "jobs", "synchronized, beyond the same block by hand", L, 3, None, "µs"),
    Target("jobs.once", "jobs", "once, skipped, vs a denied try_acquire", L, 1.2, None, "×"),
    Target("jobs.under", "jobs", "guard.under vs a hand-written claim, PostgreSQL", L, 1.25, None, "×"),
    Target("flight.across", "flight", "flight hit vs a bare GET + PTTL + JSON, across cores", L, 1.3, None, "×"),
    Target("flight.onecore", "flight", "… one core", L, 1.6, None, "×"),
    Target("flight.aiocache", "flight", "flight hits, asyncio, 64 tasks, 500 names, vs aiocache", H, 4, None, "×", 1),
    Target("flight.cashews", "flight", "… vs cashews", H, 20, None, "×", 1),
    Target("stampede.computed", "stampede", "4 x 25,000 requests on a cold key: computations", L, 1, None, "", 0),
    Target("stampede.time", "stampede", "… processor time vs as many tasks on one local future", L, 1.5, None, "×"),
    Target("stampede.requests", "stampede", "… requests to the server", L, 100, None, "", 0),
    Target("stampede.clients", "stampede", "100 waiting clients have a value after it landed", L, 50, None, "ms", 1),
    Target("leader.killed", "leader", "leader killed, next term begins, beyond the ttl", L, 0.5, None, "s"),
    Target("leader.resigned", "leader", "leader resigned, next term begins, median", L, 5, None, "ms"),
    Target("recording.pair", "recording", "pair with Prometheus metrics vs without", L, 1.07, None, "×"),
    Target("recording.p99", "recording", "… p99", L, 1.25, None, "×"),
    Target("recording.otel", "recording", "pair with OpenTelemetry, no SDK, vs without", L, 1.05, None, "×"),
    Target("recording.handover", "recording", "hand-over between threads with metrics vs without", L, 1.1, None, "×"),
    Target("recording.own", "recording", "the caller's own part of recording a pair", L, 0.5, None, "µs"),
    Target("recording.history.own", "recording", "… with the history installed", L, 2, None, "µs"),
    Target("recording.instructions", "instructions", "instructions of a pair, none installed", L, 1, None, "×", 3),
    Target("operations.list.10000", "operations", "list 10,000 locks", L, 0.6, None, "s"),
    Target("operations.list.100000", "operations", "list 100,000 locks", L, 6, None, "s"),
    Target("operations.megabytes", "operations", "… memory of the process rises by", L, 60, None, "MB", 0),
    Target("operations.others", "operations", "… p99 of another client's pairs rises by", L, 1, None, "ms"),
    Target("operations.foreign", "operations", "… a million foreign keys add", L, 1.5, None, "s"),
    Target("operations.foreign.call", "operations", "… longest call at the server", L, 1, None, "ms"),
    Target("operations.doctor", "operations", "doctor, 10,000 locks", L, 1, None, "s"),
    Target("operations.forced", "operations", "force_release until the next holder runs, p99", L, 5, None, "ms"),
    Target("operations.forced.trips", "operations", "… requests until then", L, 3, None, "", 0),
    Target("operations.run", "operations", "holdtight run x -- true", L, 150, None, "ms", 0),
    Target("operations.run.memory", "operations", "… memory", L, 40, None, "MB", 0),
    Target("operations.guardian", "operations", "… memory of its guardian", L, 12, None, "MB", 0),
    Target("operations.ls", "operations", "holdtight ls --json, 10,000 locks", L, 1.5, None, "s"),
    Target("operations.top", "operations", "holdtight top, 1,000 locks, of a core here", L, 5, None, "%", 1),
    Target("operations.top.server", "operations", "… and at the server", L, 1, None, "%", 1),
    Target("service.pair", "service", "lock service: pair, processor time vs the library's", L, 10, 7.5, "×", 1),
    Target("service.bare", "service", "… vs the same server without a lock server", L, 2, 1.5, "×"),
    Target("service.wakeup", "service", "… wake-up after release vs the library's", L, 3, 2, "×"),
    Target("service.waiting.each", "service", "… memory of each of 2,000 waiting clients", L, 24, None, "KiB", 1),
    Target("service.waiting", "service", "… vs an open request", L, 2.5, 1.8, "×"),
    Target("service.waiting.cpu", "service", "… of a core while they wait", L, 5, 3, "%", 1),
    Target("service.list.first", "service", "… first list of 10,000 locks", L, 2, 1, "s"),
    Target("service.list.later", "service", "… later ones", L, 50, None, "ms", 1),
    Target("service.list.others", "service", "… p99 of an acquire meanwhile", L, 3, None, "×"),
    Target("quorum.floor", "quorum", "five-node pair vs a bare five-socket poll, across cores", L, 1.4, 1.2, "×"),
    Target("quorum.client", "quorum", "… the client's processor time vs that poll's", L, 1.4, 1.2, "×"),
    Target("quorum.server", "quorum", "… the servers' processor time vs one server's", L, 5.5, 5.1, "×"),
    Target("quorum.peer", "quorum", "… faster than the fastest peer on five nodes", H, 1.0, None, "×"),
    Target("quorum.floor.new", "quorum", "new names: five-node pair vs that poll", L, 1.4, 1.2, "×"),
    Target("quorum.client.new", "quorum", "… the client's processor time", L, 1.4, 1.2, "×"),
    Target("quorum.server.new", "quorum", "… the servers' processor time vs one server's", L, 5.5, 5.1, "×"),
    Target("quorum.peer.new", "quorum", "… faster than the fastest peer on five nodes", H, 1.0, None, "×"),
    Target("fleet", "fleet", "lock operations/s on five nodes from one process", H, 18_000, 30_000, "/s", 0),
    Target("fleet.new", "fleet", "… new names", H, 18_000, 30_000, "/s", 0),
    Target("bad.hung.sync", "bad_node", "one of five nodes hung: added to an acquire", L, 1.0, 0.2, "ms", 3),
    Target("bad.hung.aio", "bad_node", "… asyncio", L, 1.0, 0.2, "ms", 3),
    Target("bad.dead.sync", "bad_node", "one of five nodes dead: added to an acquire", L, 1.0, 0.2, "ms", 3),
    Target("bad.dead.aio", "bad_node", "… asyncio", L, 1.0, 0.2, "ms", 3),
    Target("sentinel.pair", "sentinel", "sync pair by Sentinel vs its address, processor time", L, 1.03, 1.0, "×", 3),
    Target("cluster.pair", "cluster", "three shards: sync pair, processor time vs one server", L, 1.25, 1.1, "×"),
    Target("cluster.tasks.64", "cluster", "… 64 tasks, 10,000 names: pairs per busiest process", H, 1, 1.2, "×"),
    Target("cluster.tasks.1024", "cluster", "… 1024 tasks", H, 1, 1.2, "×"),
    Target("cluster.hot", "cluster", "… hot lock: owner changes per processor time vs one server", H, 0.85, 0.95, "×"),
    Target("cluster.requests", "cluster", "… client requests per hand-over", L, 3.2, 3.0, ""),
    Target("acks.pair", "acks", "sync pair with acks=1 vs without", L, 2.2, 1.6, "×"),
    Target("acks.tasks", "acks", "asyncio, 64 tasks, with acks=1 vs without", H, 0.5, 0.8, "×"),
    Target("renewal.round", "renewal", "renewal of 10,000 leases", L, 200, 100, "ms", 0),
    Target("renewal.p99", "renewal", "… other threads' p99 meanwhile", L, 1.0, None, "ms"),
    Target("held.lost", "held", "100,000 leases held: lost", L, 0, None, "", 0),
    Target("held.memory", "held", "… memory in the process, each", L, 1536, 1024, "bytes", 0),
    Target("held.cpu", "held", "… of a core", L, 25, 12, "%", 1),
    Target("held.counted.lost", "held", "… with Prometheus metrics: lost", L, 0, None, "", 0),
    Target("held.counted.memory", "held", "… with Prometheus metrics: memory, each", L, 1638, None, "bytes", 0),
    Target("queue", "queue", "server time per hand-over, 10,000 waiters vs 10", L, 1.5, 1.1, "×"),
    Target("memory", "memory", "server memory per held lock, above redis-py's", L, 10, 0, "bytes", 1),
    Target("import.sync", "import", "import holdtight, processor time", L, 30, 15, "ms", 1),
    Target("import.async", "import", "… with AsyncLocks", L, 70, 55, "ms", 1),
)
ROWS: tuple[str, ...] = tuple(dict.fromkeys(target.row for target in TARGETS))

_SWITCH = (
    "The target was set where a hand-over without cohort=True was three times slower than it is today. All processes "
    "share one core, and waking the next thread costs about 11 µs of it, measured with 16 threads that do nothing but "
    "pass a queue's item along: close to half of a hand-over."
)
_FIVE = (
    "Ten writes and about nine reads of sockets a pair are in both. Ours adds two waits, a fence, deadlines, a tenure "
    "and its place with the keeper."
)
_SHARDS = (
    "The client is the busiest process. With 64 tasks it makes 0.2 writes and 0.15 reads a pair for three servers, "
    "where one server needs 0.06 and 0.05: a read has a third of the replies. Besides, it computes the slot of each "
    "new name."
)
_CASHEWS = (
    "A hit takes 7.8 µs of processor time. The target allows 5, where a bare socket and the decoding of the value take "
    "4.3, measured with as many tasks."
)
_KERNEL = (
    "The system's calls bound it: where one core spends 31 µs a pair on the bare sockets of the floor, it spends 40 on "
    "ours and 82 on redis-py's, so that the floor itself is only 2.6 times faster. The target was set where Python was "
    "slower beside its kernel."
)
_THREADS = "Of one core. The floor of bare sockets is only 5.5 times as fast as redis-py with 16 threads, 6.2 with 64."
REASONS: dict[str, str] = {
    "new.threads.1": "Two requests over a bare socket take 46 µs of the client's processor time. They are in both: in "
    "our 55 to 59, and in redis-py's 95 to 98.",
    "recording.p99": "A caller that meets the meter waits for its slice. One in three hundred pairs does, which moves "
    "the 99th percentile where one in a hundred is late without it.",
    "pair.redis_py.onecore": _KERNEL,
    "pair.redis_py.onecore.new": _KERNEL,
    "drop_in.onecore": _KERNEL,
    "drop_in.onecore.new": _KERNEL,
    "threads.16": _THREADS,
    "threads.64": _THREADS,
    "asyncio.1024": "The target was set for rates, where redis-py also loses time that it does not work. By processor "
    "time its pair costs as much with 1024 tasks as with 64, and so does ours.",
    "headline": "The client is the busiest process, at some 13 to 16 µs a pair.",
    "cohort.processes": _SWITCH,
    "cohort.time": _SWITCH,
    "flight.cashews": _CASHEWS,
    "recording.pair": "The bound is narrower than the spread of the rounds. The caller's own part is in a row below.",
    "recording.otel": "The bound is narrower than the spread of the rounds.",
    "operations.others": "The client with the pairs shares a core with the server, which works for the list meanwhile.",
    "quorum.client": _FIVE,
    "quorum.client.new": _FIVE,
    "cluster.tasks.64": _SHARDS,
    "cluster.tasks.1024": _SHARDS,
    "acks.pair": "A WAIT ends when the replica has acknowledged, and master and replica share one core in this row.",
    "sentinel.pair": "Both send the same requests; the bound is narrower than the spread of the rounds.",
    "renewal.p99": "The keeper and the other threads share one interpreter and one core: a thread waits for "
    "the keeper's batch.",
    "memory": "The value has a fence besides its owner, which redis-py's has not.",
    "import.sync": "Half of it is modules of the standard library.",
    "import.async": "Importing asyncio is more than half of it.",
}
"""Why a target is missed, by key. The page says it if the target is missed in its run."""
