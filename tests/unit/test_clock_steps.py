"""Tests that fail while the machine's clock is set, or the machine stands still, are played again; others are not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clock_steps import Standstills, played
from tests.support.processes import wait_for

PASSED, FAILED = SimpleNamespace(failed=False), SimpleNamespace(failed=True)


@pytest.mark.parametrize(
    ("first", "step", "stood", "says"),
    [
        (FAILED, 2.5, 0.0, "was set by +2.500 s"),
        (FAILED, -2.5, 0.0, "was set by -2.500 s"),
        (FAILED, 0.0, 3.0, "stood still for 3.0 s"),
        (FAILED, 0.0, 0.0, ""),
        (FAILED, 0.15, 0.0, ""),
        (PASSED, 2.5, 3.0, ""),
    ],
    ids=["ahead", "back", "standstill", "steady", "drift", "passed"],
)
def test_only_a_failure_that_the_machine_may_have_caused_is_played_again(
    first: Any, step: float, stood: float, says: str
) -> None:
    clocks = iter([(1000.0, 50.0), (1010.0 + step, 60.0)])
    reports: Iterator[Any] = iter([first, PASSED])
    count: list[None] = []
    said: list[str] = []

    def play() -> Any:
        count.append(None)
        return [next(reports)]

    last = played(play, said.append, lambda since: stood, lambda: next(clocks))
    assert len(count) == (2 if says else 1)
    assert [says in each for each in said] == ([True] if says else [])
    assert last == [PASSED if says else first]


def test_a_standstill_is_seen() -> None:
    standstills = Standstills()
    try:
        begin = time.monotonic()
        wait_for(lambda: standstills.longest(begin) == 0 and standstills._seen, what="it to run")
        pid = standstills._process.pid
        os.kill(pid, signal.SIGSTOP)  # to the process it is as if nothing ran
        time.sleep(2)
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: standstills.longest(begin) > 1.5)
        assert standstills.longest(time.monotonic()) < 2, "it was before"
    finally:
        standstills.close()
