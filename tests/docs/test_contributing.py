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


def test_the_lists_of_files_to_touch_name_files_that_are_there() -> None:
    section = PAGE.partition("\n## To add …\n")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:src|tests|docs)/[\w/]+\.\w+|[A-Z]+\.md)`", section)
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_packages_that_ci_installs_are_those_that_are_named() -> None:
    (packages,) = re.findall(r"^packages=\((.*)\)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    (named,) = re.findall(r"^`\.ci/run` installs Debian packages.*?(?=^It starts|It starts)", PAGE, re.M | re.DOTALL)
    assert set(packages.split()) <= set(re.findall(r"`([\w.-]+)`", named))


def test_every_list_of_files_to_touch_ends_with_the_reference_and_the_changelog() -> None:
    section = PAGE.partition("\n## To add …\n")[2].partition("\n## ")[0]
    lists = re.split(r"(?m)^\*\*An? [\w ]+\*\*$", section)[1:]
    assert len(lists) == 3
    for each in lists:
        assert re.search(r"(?m)^\d\. `make docs`.*\n\d\. .*`CHANGELOG\.md`\.$", each)


def test_the_pythons_that_make_tries_are_those_that_are_named() -> None:
    (tried,) = re.findall(r"(?m)^FURTHER := (.*)$", (ROOT / "Makefile").read_text())
    assert f"from {tried.split()[0]} to {tried.split()[-1]} " in PAGE
