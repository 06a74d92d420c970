"""How long after a release the next in line has the lock: from before `release` to after `acquire`.

One process holds, another waits; after a pause the holder releases. Both read the clock that the
machine's processes share. The pause is different every time and spread evenly over a tenth of a second,
the interval at which redis-py looks: a peer that polls must be met at any moment of its sleep.

Turns are short: a few slow wake-ups decide a p99, and a pause of the machine hits whichever variant is on turn.
"""

from __future__ import annotations

import random
import time

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import median, percentile
from bench.targets import Better
from bench.worker_process import Worker, WorkerFailed

VARIANTS = ("holdtight", "python_redis_lock", "redis_py")
CHUNK = 3  # wake-ups a turn


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    dice = random.Random(1)
    all_samples: dict[str, list[float]] = {}
    with bench.enlist(VARIANTS, cpu=bench.across_cores(), each=2) as by_variant:
        for turn in range(1 + bench.effort.wakeups // CHUNK):
            for name, (holder, waiter) in list(by_variant.items()):
                try:
                    samples = [_wake(holder, waiter, dice) for _ in range(CHUNK)]
                except WorkerFailed as error:
                    bench.drop(name, error)
                    del by_variant[name]
                    all_samples.pop(name, None)
                else:
                    if turn:  # in the first round, every variant does everything for the first time
                        all_samples.setdefault(name, []).extend(samples)
    p50 = {name: median(samples) for name, samples in all_samples.items()}
    p99 = {name: percentile(samples, 0.99) for name, samples in all_samples.items()}
    bars = tuple(Bar(name, p50[name], p99[name]) for name in all_samples)
    outcome.charts.append(Chart("wake-up after release", "ms", Better.LOWER, bars))
    outcome.rounds = {name: [round(each, 4) for each in samples] for name, samples in all_samples.items()}
    for key, values in (("wakeup.p50", p50), ("wakeup.p99", p99)):
        if "holdtight" in values and "python_redis_lock" in values:
            outcome.figures[key] = values["holdtight"] / values["python_redis_lock"]
        else:
            outcome.missing[key] = bench.why_absent("holdtight", "python_redis_lock")
    return outcome


def _wake(holder: Worker, waiter: Worker, dice: random.Random) -> float:
    """Milliseconds."""
    holder.do("wanted.take", name="wake")
    waiter.send("wanted.take", name="wake")
    time.sleep(dice.uniform(0.005, 0.105))
    released = holder.do("wanted.give")
    taken = waiter.receive()
    waiter.do("wanted.give")
    return float(taken - released) / 1e6
