"""A test that failed while the clock of this machine was set, or while the machine stood still, is played again.

Servers measure leases by the time of day, holders by a clock that nobody sets. After a pause of a virtual machine, its
time of day jumps ahead by seconds. Then every lease on its servers has ended, while the holders still rely on theirs,
and assertions about leases do not hold (docs/safety.md, *Clocks that are set*). Or no process runs for some seconds
while the clocks go on: then no keeper can renew a lease. A run of thousands of tests cannot choose its moment, so such
a test is played once more, and the summary of the run says so. A test that fails twice has failed.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence

import pytest
from _pytest.runner import runtestprotocol

__all__ = ["ClockSteps", "Standstills"]

MOST = 0.1  # seconds that the clocks may differ by, and
RATE = 0.02  # this part of the test's time: what tests assert has more room than that


STANDSTILL = 1.5
"""Seconds. A process that sleeps for 50 ms beside a dozen busy ones wakes up within a tenth of this time."""

_WATCH = f"""
import os, select, time
last = time.monotonic()
os.write(1, b"%f %f\\n" % (last, last))
while not select.select([0], [], [], 0.05)[0]:
    now = time.monotonic()
    if now - last > {STANDSTILL}:
        os.write(1, b"%f %f\\n" % (last, now))
    last = now
"""


class Standstills:
    """A process that only sleeps, and reports when it slept much too long. It ends when its stdin ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._seen: list[tuple[float, float]] = []

    def longest(self, since: float) -> float:
        """Seconds of the longest standstill that ended after `since`."""
        assert self._process.stdout is not None
        time.sleep(0.2)  # this process may run again before the other does
        told = self._process.stdout.read() or b""
        self._seen += [(float(line.split()[0]), float(line.split()[1])) for line in told.splitlines()]
        return max((end - begin for begin, end in self._seen if end > since), default=0.0)

    def close(self) -> None:
        self._process.communicate()


class ClockSteps:
    """A pytest plugin."""

    def __init__(self) -> None:
        self._standstills: Standstills | None = None

    def pytest_sessionfinish(self) -> None:
        if self._standstills is not None:
            self._standstills.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        standstills = self._standstills = self._standstills or Standstills()

        def play() -> Sequence[pytest.TestReport]:
            return runtestprotocol(item, log=False, nextitem=nextitem)

        def say(what: str) -> None:
            text = f"{what} while the test failed: it was played again"
            item.ihook.pytest_warning_recorded.call_historic(
                kwargs={
                    "warning_message": warnings.WarningMessage(text, RuntimeWarning, str(item.path), 1),
                    "when": "runtest",
                    "nodeid": item.nodeid,
                    "location": None,
                }
            )

        for report in played(play, say, standstills.longest):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def played(
    play: Callable[[], Sequence[pytest.TestReport]],
    say: Callable[[str], None],
    longest_standstill: Callable[[float], float],
    clocks: Callable[[], tuple[float, float]] = lambda: (time.time(), time.monotonic()),
) -> Sequence[pytest.TestReport]:
    """The reports of one play, or of a second one after a failure that the machine may have caused."""
    wall, steady = clocks()
    reports = play()
    if not any(report.failed for report in reports):
        return reports
    wall_now, steady_now = clocks()
    passed = steady_now - steady
    step = wall_now - wall - passed
    if abs(step) > MOST + RATE * passed:
        say(f"the clock of this machine was set by {step:+.3f} s")
    elif stood := longest_standstill(steady):
        say(f"this machine stood still for {stood:.1f} s")
    else:
        return reports
    _forget_the_failure()
    return play()


def _forget_the_failure() -> None:
    """The traceback keeps leases of the failed play alive, which would warn in the middle of the second."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
