"""The mark `alone`, seen from outside: a run of its own with four workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

CONFTEST = """
from collections.abc import Generator
import pytest
from tests.support.alone import Room

room = None

def pytest_configure(config):
    global room
    room = Room(config)

def pytest_unconfigure(config):
    room.close()

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with room.entered(item):
        return (yield)
"""

TESTS = """
import json, time
from pathlib import Path
import pytest

def work(name):
    began = time.monotonic()
    time.sleep(0.02)
    Path(__file__).with_name(f"{name}.json").write_text(json.dumps([began, time.monotonic()]))

@pytest.mark.parametrize("number", range(40))
def test_many(number):
    work(f"many-{number}")

@pytest.mark.alone("to see it")
@pytest.mark.parametrize("number", range(8))
def test_alone(number):
    work(f"alone-{number}")
"""


def test_nothing_else_runs_while_one_is_alone(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_them.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers = alone\npythonpath = {ROOT}\n")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "4", "-q", "-p", "no:valkey", str(tmp_path)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    times = {file.stem: json.loads(file.read_text()) for file in tmp_path.glob("*.json")}
    assert len(times) == 48
    together = 0
    for name, (began, ended) in times.items():
        others = [other for other, span in times.items() if other != name and span[0] < ended and began < span[1]]
        if name.startswith("alone"):
            assert not others, f"{name} was not alone: {others}"
        together += len(others)
    assert together, "they never ran at the same time, so that this shows nothing"
