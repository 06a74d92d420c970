"""A new name each time, as in `lock(f"order:{id}")`: the client's cost next to the same name, and next to redis-py."""

from __future__ import annotations

from functools import partial

from bench.results import Bar, Chart, Outcome, label
from bench.rounds import Bench
from bench.stats import median
from bench.targets import Better

COUNTS = (("threads", (1, 16, 64)), ("tasks", (1, 64, 1024)))


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    for kind, counts in COUNTS:
        for count in counts:
            _one(bench, outcome, kind, count)
    return outcome


def _one(bench: Bench, outcome: Outcome, kind: str, count: int) -> None:
    with bench.enlist(("asleep", "redis_py"), cpu=bench.across_cores()) as by_variant:
        drill = {"count": count, "seconds": bench.effort.seconds}
        players = {
            (name, fresh): partial(workers[0].do, f"free.cost_of_{kind}", fresh=fresh, **drill)
            for name, workers in by_variant.items()
            for fresh in (False, True)
        }
        raw = bench.take_turns(
            {f"{name} {'new' if fresh else 'same'}": each for (name, fresh), each in players.items()}
        )
    costs = {name: [each["processor"] * 1e6 for each in rounds] for name, rounds in raw.items()}
    rates = {name: [each["pairs"] / each["seconds"] for each in rounds] for name, rounds in raw.items()}
    bars = tuple(_bar(name, rounds) for name, rounds in costs.items())
    what = f"{count} {kind if count > 1 else kind.removesuffix('s')}"
    outcome.charts.append(Chart(f"{what}, client processor time", "µs a pair", Better.LOWER, bars))
    outcome.rounds[f"{kind}.{count}"] = {name: {"µs": costs[name], "pairs/s": rates[name]} for name in costs}
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


def _bar(name: str, rounds: list[float]) -> Bar:
    variant, which = name.split()
    ours = variant == "asleep"
    return Bar(f"{'holdtight' if ours else label(variant)}, {which} name", median(rounds), ours=ours)
