"""The uncontended pair once more: redis-py's lock, and ours in its place, with the same arguments."""

from __future__ import annotations

from bench.results import Outcome
from bench.rounds import Bench
from bench.rows.pair import both_forms

VARIANTS = ("drop_in", "redis_py")


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    for place, title, cpu in bench.both_places("drop-in for redis-py"):
        with bench.enlist(VARIANTS, cpu=cpu) as by_variant:
            for form, medians in both_forms(bench, outcome, by_variant, place, title):
                key = f"drop_in.{place}{form}"
                if all(variant in medians for variant in VARIANTS):
                    outcome.compare(key, medians["redis_py"], medians["drop_in"])
                else:
                    outcome.missing[key] = bench.why_absent(*VARIANTS)
    return outcome
