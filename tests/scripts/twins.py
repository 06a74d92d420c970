"""Random sequences: how a state machine is played on a real server, and the rules of a lock that jobs' tests share."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from holdtight.stores.memory.engine import TAIL, Name
from holdtight.stores.memory.shelf import Shelf
from holdtight.stores.times import SPOIL_MS
from tests.scripts.clockwork import ClockworkDesk
from tests.scripts.workbench import FAR, owner
from tests.support.servers import RunningServer

__all__ = ["EXAMPLES", "START", "TwinMachine", "desk_for", "equipped_with", "owners", "play"]

EXAMPLES = int(os.environ.get("HOLDTIGHT_EXAMPLES", "0"))
START = 1_800_000_000_000_000
WEEK = 7 * 24 * 3600 * 1000
M = TypeVar("M", bound=RuleBasedStateMachine)

owners = st.sampled_from([owner(f"owner {n}") for n in range(3)])


def play(machine: type[RuleBasedStateMachine], examples: int, steps: int = 30) -> None:
    """The same examples each time, unless HOLDTIGHT_EXAMPLES says how many others to try."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=not EXAMPLES,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def equipped_with(machine: type[M], **tools: Any) -> type[M]:
    """The machine with these tools, which all its runs share."""
    return type("Equipped", (machine,), tools)


class TwinMachine(RuleBasedStateMachine):
    """One lock on a server with the test's clock, beside its twin in memory. Subclasses add the rules of their scripts,
    and what they keep in `prepare`."""

    desk: ClockworkDesk

    @initialize(micros=st.sampled_from([0, 999_999]))
    def open(self, micros: int) -> None:
        self.desk.wire.call("FLUSHALL")
        self.now_us = START + micros
        self.name, self.shelf = Name(self.now_us), Shelf()
        self.prepare()
        self.time_passes(1)

    def prepare(self) -> None: ...

    def granted(self, who: bytes) -> None:
        """A new grant has come."""

    @rule(ms=st.sampled_from([0, 1, 50, 100, 101, 119, 120, 121, TAIL, 30_000, SPOIL_MS]))
    def time_passes(self, ms: int) -> None:
        self.now_us += ms * 1000 + 1
        self.name.set_clock(self.now_us)
        self.desk.set_clock(self.now_us)

    @rule(who=owners, ttl=st.sampled_from([120, 500, 30_000, WEEK]))
    def take(self, who: bytes, ttl: int) -> None:
        self.time_passes(0)
        before = self.name.holder
        self.desk.ask(who, ttl=ttl)
        self.name.attempt(who, ttl=ttl, limit=0, label=b"", inbox=b"", not_after=FAR)
        if self.name.holder == who and before != who:
            self.granted(who)

    @rule(who=owners)
    def give(self, who: bytes) -> None:
        self.desk.release(who)
        self.name.release(who)

    def same_on_both(self, *keys: bytes) -> None:
        """Asserts that these keys have the same value and the same end on the server and on the shelf."""
        for key in keys:
            due = self.desk.expiry(key)
            stored = self.desk.wire.call("GET", key)
            if due is not None and due < self.name.now:
                stored = None
            assert stored == self.shelf.get(key, self.name.now)
            if stored:
                assert due == self.name.now + self.shelf.left(key, self.name.now)


@contextmanager
def desk_for(machine: type[M], server: RunningServer) -> Generator[type[M]]:
    desk = ClockworkDesk(server)
    yield equipped_with(machine, desk=desk)
    desk.close()
