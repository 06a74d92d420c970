"""Many asyncio tasks of one process, a name each; and the headline, which is the best that comes out here."""

from __future__ import annotations

from functools import partial

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import median
from bench.targets import Better


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    best = 0.0
    for count, variants in (
        (64, ("holdtight", "redis_py")),
        (1024, ("script_floor", "holdtight", "redis_py")),
    ):
        with bench.enlist(variants, cpu=bench.across_cores()) as by_variant:
            drill = {"count": count, "seconds": bench.effort.seconds}
            raw = bench.take_turns(
                {name: partial(workers[0].do, "free.tasks", **drill) for name, workers in by_variant.items()}
            )
        rates = {name: [each["pairs"] / each["seconds"] for each in rounds] for name, rounds in raw.items()}
        bars = tuple(Bar(name, median(rounds)) for name, rounds in rates.items())
        outcome.charts.append(Chart(f"asyncio, {count} tasks, distinct names", "pairs/s", Better.HIGHER, bars))
        outcome.rounds[str(count)] = rates
        for peer, key in (("redis_py", f"asyncio.{count}"), ("script_floor", "asyncio.floor")):
            if peer not in variants:
                continue
            if "holdtight" in rates and peer in rates:
                outcome.compare(key, rates["holdtight"], rates[peer])
            else:
                outcome.missing[key] = bench.why_absent("holdtight", peer)
        if "holdtight" in rates:
            best = max(best, median(rates["holdtight"]))
    if best:
        outcome.figures["headline"] = 2 * best
    else:
        outcome.missing["headline"] = bench.why_absent("holdtight")
    return outcome
