"""A new name each time, as in `lock(f"order:{id}")`: the client's cost next to the same name, and next to redis-py."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from typing import Any

from bench import instructions
from bench.results import Bar, Chart, Outcome, label
from bench.rounds import Bench
from bench.stats import median
from bench.targets import Better
from bench.worker_process import Worker

COUNTS = (("threads", (1, 16, 64)), ("tasks", (1, 64, 1024)), ("processes", (4,)))
NOUNS = {"threads": "threads", "tasks": "tasks", "processes": "forked processes"}


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    servers: list[Bar] = []
    for kind, counts in COUNTS:
        for count in counts:
            servers += _one(bench, outcome, kind, count)
    outcome.charts.append(Chart("new names, the server's processor time", "µs a pair", Better.LOWER, tuple(servers)))
    _turns(bench, outcome)
    _instructions(outcome)
    return outcome


def _turns(bench: Bench, outcome: Outcome) -> None:
    with bench.enlist(("holdtight", "redis_py"), cpu=bench.across_cores()) as by_variant:
        drill = {"seconds": bench.effort.seconds}
        turns = bench.take_turns(
            {name: partial(workers[0].do, "free.turns_of_a_task", **drill) for name, workers in by_variant.items()}
        )
    bars = tuple(Bar(name, median(rounds)) for name, rounds in turns.items())
    outcome.charts.append(Chart("one asyncio task, waits of the event loop", "a request", Better.LOWER, bars))
    if "holdtight" in turns:
        outcome.figures["new.turns"] = median(turns["holdtight"])
    else:
        outcome.missing["new.turns"] = bench.why_absent("holdtight")


def _instructions(outcome: Outcome) -> None:
    """Counted by valgrind, whatever else the machine does."""
    if shutil.which("valgrind") is None:
        outcome.missing["new.instructions"] = "valgrind is not installed"
        return
    counts = instructions.measured(("new name, 64 tasks", "same name, 64 tasks"))
    outcome.rounds["instructions"] = counts
    outcome.figures["new.instructions"] = counts["new name, 64 tasks"] / counts["same name, 64 tasks"]


def _one(bench: Bench, outcome: Outcome, kind: str, count: int) -> Iterator[Bar]:
    """Returns bars of the server's processor time, with new names."""

    def cost(worker: Worker, drill: dict[str, Any]) -> dict[str, float]:
        used = bench.server.worked()
        found: dict[str, float] = worker.do(f"free.cost_of_{kind}", **drill)
        return found | {"server": (bench.server.worked() - used) / (found["pairs"] + found["before"])}

    with bench.enlist(("asleep", "redis_py"), cpu=bench.across_cores()) as by_variant:
        drill = {"count": count, "seconds": bench.effort.seconds}
        players = {
            (name, fresh): partial(cost, workers[0], {**drill, "fresh": fresh})
            for name, workers in by_variant.items()
            for fresh in (False, True)
        }
        raw = bench.take_turns(
            {f"{name} {'new' if fresh else 'same'}": each for (name, fresh), each in players.items()}
        )
    costs = {name: [each["processor"] * 1e6 for each in rounds] for name, rounds in raw.items()}
    rates = {name: [each["pairs"] / each["seconds"] for each in rounds] for name, rounds in raw.items()}
    server = {name: [each["server"] * 1e6 for each in rounds] for name, rounds in raw.items()}
    bars = tuple(_bar(name, rounds) for name, rounds in costs.items())
    what = f"{count} {NOUNS[kind] if count > 1 else kind.removesuffix('s')}"
    outcome.charts.append(Chart(f"{what}, client processor time", "µs a pair", Better.LOWER, bars))
    bars = tuple(_bar(name, rounds) for name, rounds in rates.items())
    outcome.charts.append(Chart(f"{what}, rate", "pairs/s", Better.HIGHER, bars))
    outcome.rounds[f"{kind}.{count}"] = {
        name: {"µs": costs[name], "pairs/s": rates[name], "server µs": server[name]} for name in costs
    }
    keys = {
        f"new.{kind}.{count}": ("redis_py new", "asleep new", costs),
        f"new.same.{kind}.{count}": ("asleep new", "asleep same", costs),
        f"new.rate.{kind}.{count}": ("asleep new", "redis_py new", rates),
    }
    for key, (over, under, of) in keys.items():
        if over in of and under in of:
            outcome.compare(key, of[over], of[under])
        else:
            outcome.missing[key] = bench.why_absent("asleep", "redis_py")
    for name, rounds in server.items():
        variant, which = name.split()
        if which == "new":
            subject = "holdtight" if variant == "asleep" else label(variant)
            yield Bar(f"{subject}, {what}", median(rounds), ours=variant == "asleep")


def _bar(name: str, rounds: list[float]) -> Bar:
    variant, which = name.split()
    ours = variant == "asleep"
    return Bar(f"{'holdtight' if ours else label(variant)}, {which} name", median(rounds), ours=ours)
