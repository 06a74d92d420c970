"""Many threads of one process, a name each."""

from __future__ import annotations

from functools import partial

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import median, percentile
from bench.targets import Better

VARIANTS = ("floor", "holdtight", "redis_py", "python_redis_lock")


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    for count in (16, 64):
        with bench.enlist(VARIANTS, cpu=bench.across_cores()) as by_variant:
            drill = {"count": count, "seconds": bench.effort.seconds}
            raw = bench.take_turns(
                {name: partial(workers[0].do, "free.threads", **drill) for name, workers in by_variant.items()}
            )
        rates = {name: [each["pairs"] / each["seconds"] for each in rounds] for name, rounds in raw.items()}
        tails = {name: [percentile(each["durations"], 0.99) / 1e6 for each in rounds] for name, rounds in raw.items()}
        bars = tuple(Bar(name, median(rounds)) for name, rounds in rates.items())
        outcome.charts.append(Chart(f"{count} threads, distinct names", "pairs/s", Better.HIGHER, bars))
        outcome.rounds[str(count)] = {name: {"pairs/s": rates[name], "p99 ms": tails[name]} for name in rates}
        if "holdtight" in rates and "redis_py" in rates:
            outcome.compare(f"threads.{count}", rates["holdtight"], rates["redis_py"])
        else:
            outcome.missing[f"threads.{count}"] = bench.why_absent("holdtight", "redis_py")
    return outcome
