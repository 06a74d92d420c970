"""A master with one replica: what `acks=1` costs, and what it costs to come by Sentinel.

Master and replica are on one core and the client on another. What Sentinel costs is judged in processor time, of the
client and of both servers. What `acks` costs is judged in wall-clock time: it is mostly waiting.
"""

from __future__ import annotations

from functools import partial

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.rows.pair import cost, measure
from bench.servers import Followed
from bench.stats import median
from bench.targets import Better

TASKS = 64


def sentinel(bench: Bench) -> Outcome:
    outcome = Outcome()
    cpu = bench.across_cores()
    with Followed(bench.flavour) as servers:
        servers.pin(bench.cpus.server)
        with (
            bench.enlist(("asleep",), cpu=cpu, url=servers.acked) as direct,
            bench.enlist(("asleep",), cpu=cpu, url=servers.url) as followed,
        ):
            if "asleep" not in direct or "asleep" not in followed:
                outcome.missing["sentinel.pair"] = bench.why_absent("asleep")
                return outcome
            players = {"its own address": direct["asleep"], "by Sentinel": followed["asleep"]}
            measure(bench, outcome, players, "free.pairs", "across", "sync pair on a master, across cores")
            costs = bench.take_turns(
                {
                    name: partial(cost, bench, workers[0], servers, "free.cost_of_pairs")
                    for name, workers in players.items()
                }
            )
    outcome.rounds["µs a pair, client and servers"] = costs
    sums = {name: [sum(each) for each in rounds] for name, rounds in costs.items()}
    outcome.compare("sentinel.pair", sums["by Sentinel"], sums["its own address"])
    return outcome


def acks(bench: Bench) -> Outcome:
    outcome = Outcome()
    cpu = bench.across_cores()
    variants = ("holdtight", "acked")
    with Followed(bench.flavour) as servers:
        servers.pin(bench.cpus.server)
        with bench.enlist(variants, cpu=cpu, url=servers.acked) as by_variant:
            title = "sync pair with acks=1, across cores"
            medians = measure(bench, outcome, by_variant, "free.pairs", "across", title)
            drill = {"count": TASKS, "seconds": bench.effort.seconds}
            raw = bench.take_turns(
                {name: partial(workers[0].do, "free.tasks", **drill) for name, workers in by_variant.items()}
            )
    rates = {name: [each["pairs"] / each["seconds"] for each in rounds] for name, rounds in raw.items()}
    bars = tuple(Bar(name, median(rounds)) for name, rounds in rates.items())
    outcome.charts.append(Chart(f"asyncio, {TASKS} tasks, acks=1", "pairs/s", Better.HIGHER, bars))
    outcome.rounds[str(TASKS)] = rates
    for key, found in (("acks.pair", medians), ("acks.tasks", rates)):
        if all(name in found for name in variants):
            outcome.compare(key, found["acked"], found["holdtight"])
        else:
            outcome.missing[key] = bench.why_absent(*variants)
    return outcome
