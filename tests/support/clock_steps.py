"""A test that failed while the clock of this machine was set is played again.

Servers count leases by the time of day, holders by a clock that nobody sets. When a virtual machine was paused, its
time of day is moved on by seconds at once. Every lease on its servers is over then, while the holders count on: what
tests say about leases does not hold (docs/safety.md, *Clocks that are set*). A run of 12,000 tests cannot choose its
moment, so such a test is played once more, and the summary of the run says so. A test that fails twice failed.
"""

from __future__ import annotations

import gc
import sys
import time
import warnings
from collections.abc import Callable, Sequence

import pytest
from _pytest.runner import runtestprotocol

__all__ = ["ClockSteps"]

MOST = 0.1  # seconds that the clocks may differ by, and
RATE = 0.02  # this part of the test's time: what tests assert has more room than that


class ClockSteps:
    """A pytest plugin."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)

        def play() -> Sequence[pytest.TestReport]:
            return runtestprotocol(item, log=False, nextitem=nextitem)

        def say(step: float) -> None:
            text = f"the clock of this machine was set by {step:+.3f} s while the test failed: it was played again"
            item.ihook.pytest_warning_recorded.call_historic(
                kwargs={
                    "warning_message": warnings.WarningMessage(text, RuntimeWarning, str(item.path), 1),
                    "when": "runtest",
                    "nodeid": item.nodeid,
                    "location": None,
                }
            )

        for report in played(play, say):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def played(
    play: Callable[[], Sequence[pytest.TestReport]],
    say: Callable[[float], None],
    clocks: Callable[[], tuple[float, float]] = lambda: (time.time(), time.monotonic()),
) -> Sequence[pytest.TestReport]:
    """The reports of one play, or of a second one after a failure while the time of day was set."""
    wall, steady = clocks()
    reports = play()
    if not any(report.failed for report in reports):
        return reports
    wall_now, steady_now = clocks()
    passed = steady_now - steady
    step = wall_now - wall - passed
    if abs(step) <= MOST + RATE * passed:
        return reports
    say(step)
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
