"""The page is made from records of runs, which may have measured different rows."""

from __future__ import annotations

from typing import Any

import pytest

from bench import page, report
from bench.growth import Curve, Growth
from bench.results import Bar, Chart, Outcome
from bench.targets import REASONS, TARGETS, Better, Standing, Target, Verdict

FACTS: dict[str, Any] = {
    "when": "2026-01-01",
    "effort": "quick",
    "python": "CPython 3.11",
    "server": "Valkey 9.1",
    "cpu": "a processor, 2 cores",
    "system": "Linux",
    "pinning": "nobody is pinned",
    "busy with other things": 0.02,
    "commit": "0123456789ab",
    "variants": {"holdtight": {"holdtight": "0.1.0"}},
    "left out": {},
}
GROWTH = Growth((1, 10), (Curve("leases", "held", "µs", ((1, 2.0), (10, 3.0))),), {"keys left": 0.0}, 10, ("a line",))
BY_KEY = {target.key: target for target in TARGETS}


def _record(figures: dict[str, float | None], **more: Any) -> dict[str, Any]:
    verdicts = [Verdict(BY_KEY[key], figure, "" if figure else "nobody asked") for key, figure in figures.items()]
    charts = [Chart(f"chart of {', '.join(figures)}", "µs", Better.LOWER, (Bar("service", 1.0), Bar("bare", 2.0, 3.0)))]
    return report.record({**FACTS, **more}, verdicts, {"row": Outcome(charts=charts)})


def _text(record: dict[str, Any]) -> str:
    return page.text(record, report.verdicts_of(record), report.charts_of(record), GROWTH)


def test_what_was_missed_is_told_with_its_reason() -> None:
    known, unknown = "cohort.time", "flight.aiocache"
    told = _text(_record({known: 3.0, unknown: 2.0, "drop_in.across": None, "pair.floor.across": 1.0}))
    _, _, found = told.partition("### Missed, and why")
    section = found.partition("## ")[0]
    assert REASONS[known] in section
    assert page.UNKNOWN in section
    assert "nobody asked" in section
    assert section.count("- **") == 3


def test_without_a_miss_there_is_no_such_section() -> None:
    assert "Missed, and why" not in _text(_record({"pair.floor.across": 1.0}))


def test_the_page_says_for_how_long_names_were_taken() -> None:
    assert "64 tasks takes them, for 10 s:" in _text(_record({"pair.floor.across": 1.0}))


def test_runs_of_different_rows_make_one_page() -> None:
    second = {"variants": {"floor": {"hiredis": "3"}}, "busy with other things": 0.3, "when": "2026-01-02"}
    record = report.joined([_record({"memory": 9.0}), _record({"pair.floor.across": 1.0}, **second)])
    assert [each.target.key for each in report.verdicts_of(record)] == ["pair.floor.across", "memory"]
    assert all(each.standing is not Standing.MISSED for each in report.verdicts_of(record))
    told = _text(record)
    assert "2 of 2 targets met" in told
    assert "CAUTION: others used 30%" in told
    assert "2026-01-01 and 2026-01-02" in told
    assert "chart of memory" in told
    assert "chart of pair.floor.across" in told


@pytest.mark.parametrize("changed", [{"commit": "ffffffffffff"}, {"effort": "full"}])
def test_runs_of_different_trees_or_efforts_do_not_join(changed: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="differ in"):
        report.joined([_record({"memory": 9.0}), _record({"pair.floor.across": 1.0}, **changed)])


def test_of_a_row_that_several_runs_measured_the_page_has_the_median_and_each_figure() -> None:
    records = [_record({"memory": 9.0, "pair.floor.across": 1.0}), _record({"memory": 30.0}), _record({"memory": 12.0})]
    record = report.joined(records)
    by_key = {each.target.key: each for each in report.verdicts_of(record)}
    assert by_key["memory"].figure == 12.0
    assert by_key["memory"].standing is Standing.MISSED
    told = _text(record)
    assert "| 12.0 bytes (9.0 bytes, 30.0 bytes, 12.0 bytes) |" in told
    assert "| 1.00× |" in told
    assert told.count("| chart of memory |") == 1


def test_reasons_are_those_of_targets() -> None:
    assert set(REASONS) <= set(BY_KEY)
    assert isinstance(BY_KEY["memory"], Target)


def test_the_commit_that_is_named_exists() -> None:
    import subprocess

    named = report._commit().removesuffix(" (dirty)")
    if named == "unknown":
        pytest.skip("no git, or no repository")
    assert subprocess.run(["git", "cat-file", "-e", f"{named}^{{commit}}"], check=False).returncode == 0
