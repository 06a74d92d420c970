"""Tests that fail while the machine's clock is set are played again; others are not."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clock_steps import played

PASSED, FAILED = SimpleNamespace(failed=False), SimpleNamespace(failed=True)


@pytest.mark.parametrize(
    ("first", "step", "plays"),
    [(FAILED, 2.5, 2), (FAILED, -2.5, 2), (FAILED, 0.0, 1), (FAILED, 0.15, 1), (PASSED, 2.5, 1)],
    ids=["failed-ahead", "failed-back", "failed-steady", "failed-drift", "passed-ahead"],
)
def test_only_a_failure_while_the_clock_was_set_is_played_again(first: Any, step: float, plays: int) -> None:
    clocks = iter([(1000.0, 50.0), (1010.0 + step, 60.0)])
    reports: Iterator[Any] = iter([first, PASSED])
    count: list[None] = []
    said: list[float] = []

    def play() -> Any:
        count.append(None)
        return [next(reports)]

    last = played(play, said.append, lambda: next(clocks))
    assert len(count) == plays
    assert said == ([pytest.approx(step)] if plays == 2 else [])
    assert last == [PASSED if plays == 2 else first]
