"""Type checkers report the bad uses of the public surface, and accept the good ones."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

USES = [Path(__file__).with_name(name) for name in ("uses.py", "uses_of_jobs.py")]
ROOT = Path(__file__).parents[2]
Where = tuple[str, int]
Checker = Callable[[list[Path]], set[Where]]
BROKEN = """\
from holdtight import AsyncLocks, Locks

Locks(ttl=5)  # wrong
Locks(ttl=None)
Locks(wait=object())  # wrong
AsyncLocks("memory://").lock("order:42", label=5)
"""
"""A mark that is one too many, and two bad uses that have none."""


def run(*args: str) -> str:
    return subprocess.run([sys.executable, "-m", *args], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def mypy(uses: list[Path]) -> set[Where]:
    said = run("mypy", "--strict", "--no-error-summary", "--no-pretty", "--warn-unreachable", *map(str, uses))
    return {(found[1], int(found[2])) for found in re.finditer(r"(?m)(\w+\.py):(\d+):.*error:", said)}


def pyright(uses: list[Path]) -> set[Where]:
    said = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(uses[0].parent)))
    errors = [each for each in said["generalDiagnostics"] if each["severity"] == "error"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors}


def lines(uses: list[Path]) -> dict[Where, str]:
    return {(path.name, at): line for path in uses for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)}


def shown(places: set[Where], of: dict[Where, str]) -> list[str]:
    return [f"{name}:{line}: {of.get((name, line), '').strip()}" for name, line in sorted(places)]


def misjudged(checker: Checker, uses: list[Path]) -> tuple[list[str], list[str]]:
    """The bad uses that the checker does not see, and the good ones that it flags."""
    of = lines(uses)
    wanted = {where for where, line in of.items() if line.endswith("  # wrong")}
    flagged = checker(uses)
    return shown(wanted - flagged, of), shown(flagged - wanted, of)


CHECKERS = pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])


@CHECKERS
def test_bad_uses_are_flagged_and_good_ones_are_not(checker: Checker) -> None:
    assert sum(line.endswith("  # wrong") for line in lines(USES).values()) > 180
    unseen, wrongly_flagged = misjudged(checker, USES)
    assert not unseen
    assert not wrongly_flagged


@CHECKERS
def test_a_wrong_mark_and_a_bad_use_without_one_are_seen(checker: Checker, tmp_path: Path) -> None:
    broken = tmp_path / "uses.py"
    broken.write_text(BROKEN, "utf-8")
    shutil.copy(USES[0].with_name("pyrightconfig.json"), tmp_path)
    assert misjudged(checker, [broken]) == (
        ["uses.py:3: Locks(ttl=5)  # wrong"],
        ["uses.py:4: Locks(ttl=None)", 'uses.py:6: AsyncLocks("memory://").lock("order:42", label=5)'],
    )


def test_both_checkers_are_among_what_make_test_installs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {re.split(r"\W", each)[0] for each in extras["dev"]} >= {"mypy", "pyright"}
