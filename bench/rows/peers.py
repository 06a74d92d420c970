"""Every peer with an asynchronous client, also those for Node.js: 64 tasks, a new name each time."""

from __future__ import annotations

from functools import partial

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import median
from bench.targets import Better

PEERS = ("redis_py", "coredis", "aioredlock", "node_redlock", "node_semaphore")
TASKS = 64


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    with bench.enlist(("holdtight", *PEERS), cpu=bench.across_cores()) as by_variant:
        drill = {"count": TASKS, "seconds": bench.effort.seconds, "fresh": True}
        raw = bench.take_turns(
            {name: partial(workers[0].do, "free.cost_of_tasks", **drill) for name, workers in by_variant.items()}
        )
    costs = {name: [each["processor"] * 1e6 for each in rounds] for name, rounds in raw.items()}
    rates = {name: [each["pairs"] / each["seconds"] for each in rounds] for name, rounds in raw.items()}
    for title, unit, better, figures in (
        ("client processor time", "µs a pair", Better.LOWER, costs),
        ("rate", "pairs/s", Better.HIGHER, rates),
    ):
        bars = tuple(Bar(name, median(rounds)) for name, rounds in figures.items())
        outcome.charts.append(Chart(f"{TASKS} tasks, new names, {title}", unit, better, bars))
    outcome.rounds = {"µs": costs, "pairs/s": rates}
    found = [name for name in PEERS if name in costs]
    if "holdtight" in costs and found:
        best = min(found, key=lambda name: median(costs[name]))
        outcome.compare("peers.tasks.64", costs[best], costs["holdtight"])
        outcome.notes.append(f"peers.tasks.64: the best peer is {best}")
    else:
        outcome.missing["peers.tasks.64"] = bench.why_absent("holdtight", *PEERS)
    outcome.notes += [f"{name} is left out: {bench.absent[name]}" for name in PEERS if name in bench.absent]
    return outcome
