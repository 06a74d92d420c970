"""Many leases of one process: a renewal round, keeping them, and a long queue on one name.

These have no peers: the figures stand by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import median, percentile
from bench.targets import Better
from bench.worker_process import Worker, WorkerFailed

RENEWED = 10_000


@contextmanager
def _subject(bench: Bench) -> Iterator[Worker]:
    with bench.enlist(("holdtight",), cpu=bench.across_cores()) as by_variant:
        if not by_variant:
            raise WorkerFailed(bench.why_absent("holdtight"))
        yield by_variant["holdtight"][0]


def renewal(bench: Bench) -> Outcome:
    outcome = Outcome()
    try:
        with _subject(bench) as worker:
            rounds = worker.do("leases.renewal", leases=RENEWED, rounds=bench.effort.renewal_rounds)
    except WorkerFailed as error:
        outcome.missing = dict.fromkeys(("renewal.round", "renewal.p99"), str(error))
        return outcome
    pairs = [duration for each in rounds for duration in each["pairs_ms"]]
    outcome.figures["renewal.round"] = median([each["round_ms"] for each in rounds])
    outcome.figures["renewal.p99"] = percentile(pairs, 0.99)
    outcome.rounds = {"round_ms": [each["round_ms"] for each in rounds], "pairs meanwhile": len(pairs)}
    return outcome


def held(bench: Bench) -> Outcome:
    outcome = Outcome()
    leases = bench.effort.leases_held
    try:
        with _subject(bench) as worker:
            seen = worker.do("leases.held", leases=leases, seconds=bench.effort.hold_seconds)
    except WorkerFailed as error:
        outcome.missing = dict.fromkeys(("held.lost", "held.memory", "held.cpu"), str(error))
        return outcome
    outcome.figures = {
        "held.lost": seen["lost"],
        "held.memory": seen["bytes_each"],
        "held.cpu": seen["cpu_percent"],
    }
    try:
        with bench.enlist(("counted",), cpu=bench.across_cores()) as by_variant:
            if not by_variant:
                raise WorkerFailed(bench.why_absent("counted"))
            (worker,) = by_variant["counted"]
            bench.server.clear()
            seen = worker.do("leases.held", leases=leases, seconds=bench.effort.hold_seconds, counted=True)
        outcome.figures["held.counted.lost"] = seen["lost"]
        outcome.figures["held.counted.memory"] = seen["bytes_each"]
    except WorkerFailed as error:
        outcome.missing |= dict.fromkeys(("held.counted.lost", "held.counted.memory"), str(error))
    outcome.rounds = {"leases": leases, "seconds": bench.effort.hold_seconds}
    if leases != 100_000:
        outcome.notes.append(f"held: with {leases:,} leases for {bench.effort.hold_seconds:g} s only (--quick)")
    return outcome


def queue(bench: Bench) -> Outcome:
    outcome = Outcome()
    costs: dict[int, list[float]] = {10: [], bench.effort.queue_waiters: []}
    try:
        with _subject(bench) as worker:
            for _ in range(max(1, bench.effort.rounds // 2)):
                for waiters, results in costs.items():
                    seen = worker.do("queue.handovers", waiters=waiters, seconds=2 * bench.effort.seconds)
                    if not seen["handovers"]:
                        raise WorkerFailed(f"no hand-over at all with {waiters:,} waiters")
                    results.append(seen["script_us"] / seen["handovers"])
    except WorkerFailed as error:
        outcome.missing["queue"] = str(error)
        return outcome
    few, many = costs.values()
    outcome.compare("queue", many, few)
    outcome.rounds = {"server µs per hand-over": {str(waiters): results for waiters, results in costs.items()}}
    bars = tuple(Bar(f"{waiters:,} waiters", median(results), ours=True) for waiters, results in costs.items())
    outcome.charts.append(Chart("server time per hand-over", "µs", Better.LOWER, bars))
    if bench.effort.queue_waiters != 10_000:
        outcome.notes.append(f"queue: with {bench.effort.queue_waiters:,} waiters only (--quick)")
    return outcome
