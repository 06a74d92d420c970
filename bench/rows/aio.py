"""Many asyncio tasks of one process, a name each; and the headline, which is the best that comes out here.

Judged by processor time, since rates depend on who else uses the machine: that of the client against redis-py, whose
client is the bottleneck; that of the busiest process, client or server, for the headline and against the floor, which
keeps the server busy. Rates stand beside.
"""

from __future__ import annotations

from functools import partial

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import median
from bench.targets import Better
from bench.worker_process import Worker


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    best = 0.0
    for count, variants in (
        (64, ("holdtight", "redis_py")),
        (1024, ("script_floor", "holdtight", "redis_py")),
    ):
        with bench.enlist(variants, cpu=bench.across_cores()) as by_variant:
            raw = bench.take_turns(
                {name: partial(_turn, bench, workers[0], count) for name, workers in by_variant.items()}
            )
        found = {what: {name: [each[what] for each in rounds] for name, rounds in raw.items()} for what in UNITS}
        for what, unit in UNITS.items():
            better = Better.HIGHER if what == "rate" else Better.LOWER
            bars = tuple(Bar(name, median(rounds)) for name, rounds in found[what].items())
            outcome.charts.append(Chart(f"asyncio, {count} tasks, a name each, {what}", unit, better, bars))
        outcome.rounds[str(count)] = found
        clients, servers = found["client processor time"], found["server processor time"]
        busiest = {name: list(map(max, clients[name], servers[name])) for name in clients}
        for peer, key, costs in (
            ("redis_py", f"asyncio.{count}", clients),
            ("script_floor", "asyncio.floor", busiest),
        ):
            if peer not in variants:
                continue
            if "holdtight" in costs and peer in costs:
                outcome.compare(key, costs[peer], costs["holdtight"])
            else:
                outcome.missing[key] = bench.why_absent("holdtight", peer)
        if "holdtight" in busiest:
            best = max(best, 1e6 / median(busiest["holdtight"]))
    if best:
        outcome.figures["headline"] = 2 * best
    else:
        outcome.missing["headline"] = bench.why_absent("holdtight")
    return outcome


UNITS = {"client processor time": "µs a pair", "server processor time": "µs a pair", "rate": "pairs/s"}


def _turn(bench: Bench, worker: Worker, count: int) -> dict[str, float]:
    used = bench.server.worked()
    found = worker.do("free.cost_of_tasks", count=count, seconds=bench.effort.seconds, fresh=False)
    used = bench.server.worked() - used
    return {
        "client processor time": found["processor"] * 1e6,
        "server processor time": used * 1e6 / (found["pairs"] + found["before"]),
        "rate": found["pairs"] / found["seconds"],
    }
