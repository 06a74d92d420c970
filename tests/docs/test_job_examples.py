"""Every script of examples/jobs that shows a job fails without it, and not with it; docs/jobs.md leads to each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.processes import Child

ROOT = Path(__file__).parents[2]
SCRIPTS = {
    "api_quota": list[str](),
    "cache_stampede": ["2000"],
    "duplicate_cron": list[str](),
    "leader_election": list[str](),
}


@pytest.mark.long
def test_a_hundred_thousand_requests_of_four_services_ask_the_database_once() -> None:
    path = ROOT / "examples" / "jobs" / "cache_stampede.py"
    with Child([sys.executable, str(path)], {"PYTHONPATH": str(ROOT / "src")}) as child:
        said = child.lines(600.0)
        assert (child.wait(), child.errors) == (0, "")
    assert "  The database was asked 1 times." in said
    assert said[-1] == "The failure without: yes. With: no."


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_failure_is_seen_without_and_not_with(script: str) -> None:
    path = ROOT / "examples" / "jobs" / f"{script}.py"
    with Child([sys.executable, str(path), *SCRIPTS[script]], {"PYTHONPATH": str(ROOT / "src")}) as child:
        said = child.lines(90.0)
        assert (child.wait(), child.errors) == (0, "")
    assert said[-1] == "The failure without: yes. With: no."


def test_the_page_leads_to_each() -> None:
    page = (ROOT / "docs" / "jobs.md").read_text()
    assert [script for script in SCRIPTS if f"(../examples/jobs/{script}.py)" not in page] == []
