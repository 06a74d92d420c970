"""The hot lock: 64 waiters in 4 processes on one name.

What counts is how often the lock changes hands. Acquisitions alone would flatter a lock that the last
holder simply takes again. Requests are counted in a round of its own, under MONITOR, which tells what
a client sent from what a script called, and slows the server down.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypedDict

from bench import cpus
from bench.drills.wanted import CHANGES, STOP, VIOLATIONS, Board
from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.servers import Server
from bench.stats import jain, median
from bench.targets import Better
from bench.wire import Monitor, count_requests
from bench.worker_process import Worker

VARIANTS = ("holdtight", "python_redis_lock", "redis_py")  # the last is left out of a quick run: it polls
PROCESSES, THREADS = 4, 16
WAITERS = PROCESSES * THREADS
SETTLING = 3.0  # seconds until every waiter has had the lock once; a lock that is not fair may need longer


class Round(TypedDict):
    changes: float
    processor: float
    """Seconds of processor time an owner change, of the clients and servers together."""
    jain: float
    violations: int
    requests: dict[str, float]


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    variants = VARIANTS if bench.effort.with_pollers else VARIANTS[:-1]
    with bench.enlist(variants, cpu=bench.across_cores(), each=PROCESSES) as by_variant:
        rounds = bench.take_turns({name: partial(contend, bench, workers) for name, workers in by_variant.items()})
        counted = {name: contend(bench, by_variant[name], monitor=True) for name in rounds}
    changes = {name: [each["changes"] for each in results] for name, results in rounds.items()}
    bars = tuple(Bar(name, median(each)) for name, each in changes.items())
    outcome.charts.append(Chart("hot lock, 64 waiters in 4 processes", "owner changes/s", Better.HIGHER, bars))
    per_change = {name: sum(each["requests"].values()) for name, each in counted.items()}
    bars = tuple(Bar(name, each) for name, each in per_change.items())
    outcome.charts.append(Chart("hot lock, client requests", "per owner change", Better.LOWER, bars))
    outcome.rounds = {"timed": rounds, "counted": counted}
    if "holdtight" not in rounds:
        for key in ("hot.changes", "hot.requests", "hot.jain"):
            outcome.missing[key] = bench.why_absent("holdtight")
        return outcome
    if per_change["holdtight"]:
        outcome.figures["hot.requests"] = per_change["holdtight"]
    else:
        outcome.missing["hot.requests"] = "the lock did not change hands while requests were counted"
    outcome.figures["hot.jain"] = median([each["jain"] for each in rounds["holdtight"]])
    if "python_redis_lock" in changes:
        outcome.compare("hot.changes", changes["holdtight"], changes["python_redis_lock"])
    else:
        outcome.missing["hot.changes"] = bench.why_absent("python_redis_lock")
    for name, results in rounds.items():
        violations = sum(each["violations"] for each in results)
        if violations:
            outcome.notes.append(f"{name}: {violations} times two holders were inside at once")
    return outcome


def contend(bench: Bench, workers: list[Worker], *, monitor: bool = False, servers: Sequence[Server] = ()) -> Round:
    """As many processes as there are workers, each with its threads. `servers` are those in use, if not the usual."""
    waiters = THREADS * len(workers)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board"
        board = Board(path, waiters, create=True)
        for number, worker in enumerate(workers):
            first = 1 + number * THREADS
            worker.send("wanted.contend", name="hot", board=str(path), first=first, threads=THREADS, waiters=waiters)
        try:
            return _watch(bench, board, workers, servers or [bench.server], monitor=monitor)
        finally:
            board.put(STOP, 1)
            for worker in workers:
                worker.receive()
            board.close()


def _settle(board: Board) -> None:
    patience = time.monotonic() + SETTLING
    while not all(board.counts()) and time.monotonic() < patience:
        time.sleep(0.02)


def watch(bench: Bench, board: Board, workers: list[Worker]) -> tuple[float, float, list[int]]:
    """Owner changes per second, the processor time of one, and what each waiter got, while all run: starting and ending
    do not count."""
    _settle(board)
    used = processor(workers, [bench.server])
    start, changes, counts = time.monotonic(), board.get(CHANGES), board.counts()
    time.sleep(max(0.5, bench.effort.seconds))
    span, changed = time.monotonic() - start, board.get(CHANGES) - changes
    used = processor(workers, [bench.server]) - used
    shares = [after - before for after, before in zip(board.counts(), counts, strict=True)]
    return changed / span, used / max(1, changed), shares


def _watch(bench: Bench, board: Board, workers: list[Worker], servers: Sequence[Server], *, monitor: bool) -> Round:
    """Reads the board twice while all waiters run: starting and ending do not count."""
    _settle(board)
    logs = [Monitor(server.port) for server in servers] if monitor else []
    if logs:
        time.sleep(0.1)
    marks = [log.cut() for log in logs]
    used = processor(workers, servers)
    start, changes, counts = time.monotonic(), board.get(CHANGES), board.counts()
    time.sleep(max(0.5, bench.effort.seconds))
    span, changed = time.monotonic() - start, board.get(CHANGES) - changes
    used = processor(workers, servers) - used
    shares = [after - before for after, before in zip(board.counts(), counts, strict=True)]
    seen: Counter[str] = Counter()
    for log, mark in zip(logs, marks, strict=True):
        seen += count_requests(log.between(mark, log.cut()))
        log.close()
    return Round(
        changes=changed / span,
        processor=used / max(1, changed),
        jain=jain(shares),
        violations=board.get(VIOLATIONS),
        requests={command: count / changed for command, count in seen.items()} if changed else {},
    )


def processor(workers: list[Worker], servers: Sequence[Server]) -> float:
    return sum(cpus.used_by(worker.pid) for worker in workers) + sum(server.worked() for server in servers)
