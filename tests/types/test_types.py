"""Type checkers report the bad uses of the public surface, and accept the good ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

USES = Path(__file__).with_name("uses.py")
ROOT = Path(__file__).parents[2]
LINES = USES.read_text("utf-8").splitlines()


def run(*args: str) -> str:
    return subprocess.run([sys.executable, "-m", *args], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def mypy() -> set[int]:
    said = run("mypy", "--strict", "--no-error-summary", "--no-pretty", "--warn-unreachable", str(USES))
    return {int(found[1]) for found in re.finditer(r"uses\.py:(\d+):.*error:", said)}


def pyright() -> set[int]:
    said = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(USES.parent)))
    return {each["range"]["start"]["line"] + 1 for each in said["generalDiagnostics"] if each["severity"] == "error"}


def shown(numbers: set[int]) -> str:
    return "\n".join(f"{number}: {LINES[number - 1].strip()}" for number in sorted(numbers))


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_bad_uses_are_flagged_and_good_ones_are_not(checker: Callable[[], set[int]]) -> None:
    pytest.importorskip(checker.__name__)
    wanted = {number for number, line in enumerate(LINES, 1) if line.endswith("  # wrong")}
    flagged = checker()
    assert len(wanted) > 40
    assert not wanted - flagged, "it does not see:\n" + shown(wanted - flagged)
    assert not flagged - wanted, "it flags good uses:\n" + shown(flagged - wanted)
