"""The uncontended pair: take a free lock and release it, in one thread, one pair after the other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Protocol

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.stats import Spread, median, spread
from bench.targets import Better
from bench.worker_process import Worker

VARIANTS = ("floor", "holdtight", "redis_py", "python_redis_lock")


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    for place, title, cpu in bench.both_places("sync pair"):
        with bench.enlist(VARIANTS, cpu=cpu) as by_variant:
            for form, medians in both_forms(bench, outcome, by_variant, place, title):
                for peer in ("floor", "redis_py"):
                    key = f"pair.{peer}.{place}{form}"
                    if "holdtight" not in medians or peer not in medians:
                        outcome.missing[key] = bench.why_absent("holdtight", peer)
                        continue
                    # Against the floor it is time by time, against the peer how many times as fast.
                    ours, theirs = medians["holdtight"], medians[peer]
                    outcome.compare(key, *((ours, theirs) if peer == "floor" else (theirs, ours)))
    return outcome


FORMS = (("", "same names", "free.pairs"), (".new", "new names", "free.fresh_pairs"))
"""What a key ends in, and what is measured for it."""


def both_forms(
    bench: Bench, outcome: Outcome, by_variant: dict[str, list[Worker]], place: str, title: str
) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """With the same names again and again, and with a new name each time."""
    for form, words, drill in FORMS:
        yield form, measure(bench, outcome, by_variant, drill, f"{place}{form}", f"{title}, {words}")


def measure(
    bench: Bench, outcome: Outcome, by_variant: dict[str, list[Worker]], drill: str, key: str, title: str
) -> dict[str, list[float]]:
    """The medians of each variant, round by round."""
    seconds = bench.effort.seconds
    raw = bench.take_turns(
        {name: partial(workers[0].do, drill, seconds=seconds) for name, workers in by_variant.items()}
    )
    spreads = {name: [spread([ns / 1000 for ns in each]) for each in rounds] for name, rounds in raw.items()}
    outcome.charts.append(Chart(title, "µs", Better.LOWER, tuple(_bar(n, s) for n, s in spreads.items())))
    outcome.rounds[key] = {name: [_plain(each) for each in rounds] for name, rounds in spreads.items()}
    return {name: [each.p50 for each in rounds] for name, rounds in spreads.items()}


class Works(Protocol):
    """One server, or several."""

    def worked(self) -> float: ...


def cost(bench: Bench, worker: Worker, servers: Works, drill: str, **more: object) -> tuple[float, float]:
    """The processor time of a pair in µs, the client's and that of all servers together."""
    before = servers.worked()
    found = worker.do(drill, seconds=bench.effort.seconds, **more)
    return found["processor"] * 1e6, (servers.worked() - before) * 1e6 / (found["pairs"] + found["before"])


def _plain(each: Spread) -> dict[str, float]:
    return {"count": each.count, "p50": round(each.p50, 3), "p99": round(each.p99, 3)}


def _bar(variant: str, rounds: list[Spread]) -> Bar:
    return Bar(variant, median([each.p50 for each in rounds]), median([each.p99 for each in rounds]))
