"""The uncontended pair of the other kinds, against the exclusive lock's."""

from __future__ import annotations

from bench.results import Outcome
from bench.rounds import Bench
from bench.rows.pair import both_forms

VARIANTS = ("holdtight", "reader", "permit")


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    for place, title, cpu in bench.both_places("pairs of all kinds"):
        with bench.enlist(VARIANTS, cpu=cpu) as by_variant:
            for form, medians in both_forms(bench, outcome, by_variant, place, title):
                for kind in ("reader", "permit"):
                    key = f"kinds.{kind}.{place}{form}"
                    if kind in medians and "holdtight" in medians:
                        outcome.compare(key, medians[kind], medians["holdtight"])
                    else:
                        outcome.missing[key] = bench.why_absent("holdtight", kind)
    return outcome
