"""Metrics, traces and history next to none: a free pair, hand-overs between threads, and the caller's own part."""

from __future__ import annotations

import shutil
from functools import partial

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.rows.hot import contend
from bench.rows.pair import measure
from bench.stats import median
from bench.targets import Better

PAIR = "new name, one thread"
BEFORE = {"3.11.7 x86_64 c99d97f9": 77_290}
"""Instructions of a pair in the last commit before metrics and traces (75ccbe4), by build of Python."""
VARIANTS = ("holdtight", "counted", "traced", "historic")


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    with bench.enlist(VARIANTS, cpu=bench.across_cores()) as by_variant:
        medians = measure(bench, outcome, by_variant, "free.pairs", "pair", "sync pair, with metrics and without")
        tails = {name: [each["p99"] for each in rounds] for name, rounds in outcome.rounds["pair"].items()}
        changes = {
            name: [each["changes"] for each in rounds]
            for name, rounds in bench.take_turns(
                {name: partial(contend, bench, by_variant[name]) for name in ("holdtight", "counted")}
            ).items()
        }
        outcome.figures["recording.own"] = by_variant["counted"][0].do("recording.own")
        outcome.figures["recording.history.own"] = by_variant["historic"][0].do("recording.own")
    bars = tuple(Bar(name, median(each)) for name, each in changes.items())
    outcome.charts.append(Chart("hand-overs between 16 threads", "owner changes/s", Better.HIGHER, bars))
    outcome.compare("recording.pair", medians["counted"], medians["holdtight"])
    outcome.compare("recording.p99", tails["counted"], tails["holdtight"])
    outcome.compare("recording.otel", medians["traced"], medians["holdtight"])
    outcome.compare("recording.handover", changes["holdtight"], changes["counted"])
    return outcome


def instructions(bench: Bench) -> Outcome:
    """A pair with neither metrics nor traces, next to the count from before there were any."""
    from bench import instructions as counting

    outcome, key = Outcome(), "recording.instructions"
    before = BEFORE.get(counting.build())
    if shutil.which("valgrind") is None:
        outcome.missing[key] = "valgrind is not here"
    elif before is None:
        outcome.missing[key] = f"not counted before for this build of Python ({counting.build()})"
    else:
        found = counting.measured([PAIR])[PAIR]
        outcome.figures[key] = found / before
        outcome.notes.append(f"instructions: {found:,} a pair, {before:,} before")
    return outcome
