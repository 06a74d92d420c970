"""Type checkers report the bad uses of the public surface, and accept the good ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

USES = [Path(__file__).with_name(name) for name in ("uses.py", "uses_of_jobs.py")]
ROOT = Path(__file__).parents[2]
LINES = {(path.name, at): line for path in USES for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)}
Where = tuple[str, int]


def run(*args: str) -> str:
    return subprocess.run([sys.executable, "-m", *args], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def mypy() -> set[Where]:
    said = run("mypy", "--strict", "--no-error-summary", "--no-pretty", "--warn-unreachable", *map(str, USES))
    return {(found[1], int(found[2])) for found in re.finditer(r"(?m)(\w+\.py):(\d+):.*error:", said)}


def pyright() -> set[Where]:
    said = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(USES[0].parent)))
    errors = [each for each in said["generalDiagnostics"] if each["severity"] == "error"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors}


def shown(places: set[Where]) -> str:
    return "\n".join(f"{name}:{line}: {LINES.get((name, line), '').strip()}" for name, line in sorted(places))


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_bad_uses_are_flagged_and_good_ones_are_not(checker: Callable[[], set[Where]]) -> None:
    pytest.importorskip(checker.__name__)
    wanted = {where for where, line in LINES.items() if line.endswith("  # wrong")}
    flagged = checker()
    assert len(wanted) > 120
    assert not wanted - flagged, "it does not see:\n" + shown(wanted - flagged)
    assert not flagged - wanted, "it flags good uses:\n" + shown(flagged - wanted)
