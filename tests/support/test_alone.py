"""The mark `alone`, seen from outside: a run of its own with four workers."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

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
def pytest_runtest_protocol(item, nextitem):
    with room.entered(item, nextitem):
        return (yield)
"""

TESTS = """
import json, os, time
from pathlib import Path
import pytest

def work(name):
    began = time.monotonic()
    time.sleep(0.02)
    record = [began, time.monotonic(), os.environ["PYTEST_XDIST_WORKER"]]
    Path(__file__).with_name(f"{name}.json").write_text(json.dumps(record))

@pytest.mark.parametrize("number", range(40))
def test_many(number):
    work(f"many-{number}")

@pytest.mark.alone("to see it")
@pytest.mark.parametrize("number", range(8))
def test_alone(number):
    work(f"alone-{number}")
"""


Record = tuple[float, float, str]
"""When a test began and ended, and in which worker."""


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    tmp_path = tmp_path_factory.mktemp("alone")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_them.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers = alone\npythonpath = {ROOT}\n")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "4", "--dist", "worksteal", "-q", "-p", "no:valkey", str(tmp_path)],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    times = {file.stem: json.loads(file.read_text()) for file in tmp_path.glob("*.json")}
    assert len(times) == 48
    return times


def test_nothing_else_runs_while_one_is_alone(times: dict[str, Record]) -> None:
    together = 0
    for name, (began, ended, _) in times.items():
        others = [other for other, span in times.items() if other != name and span[0] < ended and began < span[1]]
        if name.startswith("alone"):
            assert not others, f"{name} was not alone: {others}"
        together += len(others)
    assert together, "they never ran at the same time, so that this shows nothing"


def test_nothing_else_runs_between_two_of_a_worker_that_are_alone(times: dict[str, Record]) -> None:
    in_order = sorted(times.items(), key=lambda item: item[1])
    pairs = 0
    for worker in {record[2] for record in times.values()}:
        own = [(name, record) for name, record in in_order if record[2] == worker]
        for (first, (_, ended, _)), (second, (began, _, _)) in itertools.pairwise(own):
            if first.startswith("alone") and second.startswith("alone"):
                pairs += 1
                between = [name for name, (start, _, _) in in_order if ended < start < began]
                assert not between, f"{between} between {first} and {second}"
    assert pairs, "no worker played two of them, so that this shows nothing"
