"""One name that many want: cohort=True against locks without it.

All processes share one core, which a hand-over without the server fills with waking threads. So processor time of
clients and server for each hand-over is judged too: on a machine with a core for each process it is what counts.

64 tasks of one process; then 4 processes of 16 threads, with a fifth process that takes the lock now and then, without
cohort=True. Jain's index is of what each of the four processes got; the longest wait is that of the fifth.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TypedDict

from bench.drills.wanted import STOP, VIOLATIONS, Board
from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.rows.hot import PROCESSES, THREADS, WAITERS, watch
from bench.stats import jain, median
from bench.targets import Better
from bench.worker_process import Worker

VARIANTS = ("cohort", "holdtight")
KEYS = ("cohort.tasks", "cohort.processes", "cohort.time", "cohort.jain", "cohort.longest")
TASKS = 64


class Round(TypedDict):
    changes: float
    processor: float
    jain: float
    longest: float
    violations: int


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    with bench.enlist(VARIANTS, cpu=bench.across_cores(), each=PROCESSES) as by_variant:
        drill = {"count": TASKS, "seconds": max(1.0, bench.effort.seconds)}
        tasks = bench.take_turns(
            {name: partial(workers[0].do, "wanted.tasks", **drill) for name, workers in by_variant.items()}
        )
        with bench.enlist(("holdtight",), cpu=bench.across_cores()) as others:
            contend = {
                name: partial(_contend, bench, workers, other)
                for name, workers in by_variant.items()
                for other in others.get("holdtight", ())
            }
            rounds = bench.take_turns(contend)
    if not all(name in each for name in VARIANTS for each in (tasks, rounds)):
        for key in KEYS:
            outcome.missing[key] = bench.why_absent(*VARIANTS)
        return outcome
    changes = {name: [each["changes"] for each in results] for name, results in rounds.items()}
    for title, rates in (
        (f"one name, {TASKS} tasks", tasks),
        (f"one name, {PROCESSES} processes of {THREADS} threads", changes),
    ):
        bars = tuple(Bar(name, median(rates[name])) for name in VARIANTS)
        outcome.charts.append(Chart(title, "hand-overs/s", Better.HIGHER, bars))
    outcome.compare("cohort.tasks", tasks["cohort"], tasks["holdtight"])
    outcome.compare("cohort.processes", changes["cohort"], changes["holdtight"])
    times = {name: [each["processor"] * 1e6 for each in results] for name, results in rounds.items()}
    bars = tuple(Bar(name, median(times[name])) for name in VARIANTS)
    title = f"one name, {PROCESSES} processes of {THREADS} threads, all processor time"
    outcome.charts.append(Chart(title, "µs a hand-over", Better.LOWER, bars))
    outcome.compare("cohort.time", times["holdtight"], times["cohort"])
    outcome.figures["cohort.jain"] = median([each["jain"] for each in rounds["cohort"]])
    longest = {name: [each["longest"] for each in results] for name, results in rounds.items()}
    outcome.compare("cohort.longest", longest["cohort"], longest["holdtight"])
    outcome.rounds = {"tasks": tasks, "processes": rounds}
    violations = sum(each["violations"] for results in rounds.values() for each in results)
    if violations:
        outcome.notes.append(f"{violations} times two holders were inside at once")
    return outcome


def _contend(bench: Bench, workers: list[Worker], other: Worker) -> Round:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board"
        board = Board(path, WAITERS, create=True)
        for number, worker in enumerate(workers):
            first = 1 + number * THREADS
            worker.send("wanted.contend", name="hot", board=str(path), first=first, threads=THREADS, waiters=WAITERS)
        other.send("wanted.waits", name="hot", board=str(path), waiters=WAITERS)
        try:
            changes, processor, shares = watch(bench, board, [*workers, other])
            violations = board.get(VIOLATIONS)
        finally:
            board.put(STOP, 1)
            for worker in workers:
                worker.receive()
            longest: float = other.receive()
            board.close()
    each = [sum(shares[at : at + THREADS]) for at in range(0, WAITERS, THREADS)]
    return Round(changes=changes, processor=processor, jain=jain(each), longest=longest, violations=violations)
