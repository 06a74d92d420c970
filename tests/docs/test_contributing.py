"""The tables of tests in CONTRIBUTING.md name every folder, and no file that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTION = PAGE.partition("\n## Tests\n")[2].partition("\n## ")[0]


def test_every_folder_of_tests_stands_in_the_table() -> None:
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.glob("*/test_*.py")}
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", SECTION, re.MULTILINE) for name in re.findall(r"`(\w+)/`", row)
    }
    assert named == folders


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(r"`(\w+/\w+\.py)`", SECTION)
    assert len(named) > 40
    assert [name for name in named if not (TESTS / name).is_file()] == []
