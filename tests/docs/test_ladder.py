"""Every rung's script shows the fault on the rung below and not on its own; docs/ladder.md leads to each of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.processes import Child

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples" / "ladder").glob("[0-9]*.py"))
CURED = "The fault on the rung below: yes. Here: no."
PATIENCE = 90.0


@pytest.fixture(scope="module")
def plays() -> Iterator[dict[Path, Future[tuple[int, list[str], str]]]]:
    """Exit code, output and errors of each script. They mostly wait, so three run at a time."""
    with ThreadPoolExecutor(3) as pool:
        yield {script: pool.submit(_play, script) for script in SCRIPTS}


def _play(script: Path) -> tuple[int, list[str], str]:
    with Child([sys.executable, str(script)], {"PYTHONPATH": str(ROOT / "src")}) as child:
        said = child.lines(PATIENCE)
        return child.wait(), said, child.errors


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_fault_is_seen_below_and_not_here(
    script: Path, plays: dict[Path, Future[tuple[int, list[str], str]]]
) -> None:
    code, said, errors = plays[script].result()
    assert errors == ""
    assert (code, said[-1]) == (0, CURED)


def test_the_page_leads_to_every_rung_in_order() -> None:
    page = (ROOT / "docs" / "ladder.md").read_text()
    linked = re.findall(r"^## .*\n(?:(?!^## ).*\n)*?.*\(\.\./examples/ladder/(.+?\.py)\)", page, flags=re.MULTILINE)
    assert linked == [script.name for script in SCRIPTS]
    assert len(SCRIPTS) == 10
