"""What docs/deadlocks.md shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdtight import DeadlockDetected, Holder, Locks
from holdtight.base.values import Member
from tests.support.servers import RunningServer

PAGE = (Path(__file__).parents[2] / "docs" / "deadlocks.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_message_is_the_one_that_is_shown() -> None:
    members = (
        Member("a", "b", "1", "2", "web-3", 811, "thread MainThread", "checkout"),
        Member("b", "a", "3", "4", "web-4", 90, "task Task-7", "billing"),
    )
    error = DeadlockDetected.among(members, Holder("3"), 1.02)
    (shown,) = blocks("")
    assert shown.split() == f"DeadlockDetected: {error}".split()
    assert f"`{error.cycle}`".replace("'", '"') in PAGE


def test_the_example_runs(private_server: RunningServer) -> None:
    (example,) = blocks("python")
    moved: list[int] = []
    with Locks(private_server.url) as locks:
        exec(example, {"locks": locks, "move_money": lambda: moved.append(1), "DeadlockDetected": DeadlockDetected})
    assert moved == [1]


@pytest.mark.parametrize("word", ["runs", "found", "dismissed", "failures"])
def test_the_counters_are_there(word: str) -> None:
    assert f"`{word}`" in PAGE
    assert getattr(Locks("redis://h").deadlocks, word) == 0
