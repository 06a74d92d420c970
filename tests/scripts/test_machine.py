"""Random sequences of verbs and of passing time: the scripts on a real server against the model.

The scripts run by the test's clock (see clockwork.py) and stop after 8 looks instead of 200. Every reply is
compared; after each step so are the holder, the line, the markers that still count and all expiries, and
what a real subscribed connection has heard. `HOLDTIGHT_EXAMPLES=5000` makes a long run of it, with other
examples each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdtight.memory.engine import Name, long_form
from tests.scripts.clockwork import ClockworkDesk
from tests.scripts.workbench import Inbox, State, owner, read_entry
from tests.support.servers import StartServer

EXAMPLES = int(os.environ.get("HOLDTIGHT_EXAMPLES", "0"))
SWEEP = 8
START = 1_800_000_000_000_000
HOUR = 3_600_000_000

INBOXES = [b"inbox 1", b"inbox 2", b"inbox 3"]
owners = st.sampled_from([owner(f"owner {n}") for n in range(5)])
inboxes = st.sampled_from([*INBOXES, b"nobody", b""])
ttls = st.sampled_from([1, 120, 500, 501, 30_000])
labels = st.sampled_from(["", "a label", "schöner Name"])
limits = st.sampled_from([0, 2, 4, 100, 100])
lateness = st.sampled_from([-1, 0, 2_000_000, 2_000_000, 2_000_000])
# Short, around each limit (claim window, heartbeat, tail, markers), and long.
pauses = st.sampled_from([1, 999, 1_000, 119_000, 120_000, 121_000, 499_000, 500_000, 501_000, 2_000_000]) | (
    st.sampled_from([4_999_000, 5_000_000, 5_001_000, 9_999_999, 10_000_000, 10_001_000, 40_001_000])
)


class Machine(RuleBasedStateMachine):
    desk: ClockworkDesk
    ear: Inbox

    @initialize(micros=st.sampled_from([0, 1, 999_999]))
    def begin(self, micros: int) -> None:
        self.desk.wire.call("FLUSHALL")
        for channel in INBOXES:
            self.ear.subscribe(channel)
        self.ear.rung()
        self.true_us, self.ahead, self.crowds = START + micros, 0, 0
        self.last_end = 0
        self.model = Name(self.true_us, sweep=SWEEP, listening=set(INBOXES))
        self._set_clock()

    # The verbs

    @rule(who=owners, ttl=ttls, limit=limits, label=labels, inbox=inboxes, late=lateness)
    def attempt(self, who: bytes, ttl: int, limit: int, label: str, inbox: bytes, late: int) -> None:
        how: dict[str, Any] = {
            "ttl": ttl,
            "limit": limit,
            "inbox": inbox,
            "not_after": self.model.now_us + late,
        }
        expected = self.model.attempt(who, **how, label=label.encode())
        self._compare(long_form(self.desk.attempt(who, **how, label=label)), expected)

    @rule(who=owners, ttl=ttls, inbox=inboxes)
    def wait_in_line(self, who: bytes, ttl: int, inbox: bytes) -> None:
        self.attempt(who, ttl, 100, "", inbox, 2_000_000)

    @precondition(lambda self: self.model.holder)
    @rule(ttl=ttls)
    def confirm(self, ttl: int) -> None:
        assert self.model.holder
        fence = self.model.last
        self.attempt(self.model.holder, ttl, 100, "", INBOXES[0], 2_000_000)
        assert self.model.last == fence

    @rule(who=owners)
    def release(self, who: bytes) -> None:
        self._compare(self.desk.release(who), self.model.release(who))

    @precondition(lambda self: self.model.main and self.model.main.owner)
    @rule()
    def release_the_holder(self) -> None:
        assert self.model.main
        self.release(self.model.main.owner or b"")

    @rule(who=owners, ttl=ttls, late=lateness)
    def renew(self, who: bytes, ttl: int, late: int) -> None:
        limit = self.model.now_us + late
        expected = self.model.renew(who, ttl=ttl, not_after=limit)
        self._compare(self.desk.renew(who, ttl=ttl, not_after=limit), expected)

    @precondition(lambda self: self.model.holder)
    @rule(ttl=ttls)
    def renew_the_holder(self, ttl: int) -> None:
        self.renew(self.model.holder or b"", ttl, 2_000_000)

    @precondition(lambda self: self.model.line)
    @rule()
    def all_touch(self) -> None:
        for entry in list(self.model.line):
            self.touch(entry.owner, entry.inbox)

    @rule(who=owners, inbox=inboxes)
    def touch(self, who: bytes, inbox: bytes) -> None:
        self._compare(self.desk.touch(who, inbox), self.model.touch(who, inbox))

    @rule(who=owners, marker=st.sampled_from([None, None, -1, 0, 1, 120, 2_000, 12_000, 3_600_000]))
    def withdraw(self, who: bytes, marker: int | None) -> None:
        until = 0 if marker is None else self.model.now + marker
        self.last_end = max(self.last_end, until)
        self._compare(self.desk.withdraw(who, until), self.model.withdraw(who, until))

    @rule(old=owners, new=owners, ttl=ttls, label=labels, late=lateness)
    def adopt(self, old: bytes, new: bytes, ttl: int, label: str, late: int) -> None:
        if self.model.main and self.model.main.owner and len(label) != 7:
            old = self.model.main.owner
        limit = self.model.now_us + late
        expected = self.model.adopt(old, new, ttl=ttl, label=label.encode(), not_after=limit)
        self._compare(self.desk.adopt(old, new, ttl=ttl, label=label, not_after=limit), expected)

    @rule(number=st.integers(SWEEP - 1, SWEEP + 3), inbox=inboxes)
    def many_join(self, number: int, inbox: bytes) -> None:
        """More than one script may look at; they never touch."""
        for _ in range(number):
            self.crowds += 1
            self.attempt(owner(f"one of many {self.crowds}"), 30_000, 100, "", inbox, 2_000_000)

    # The world

    @rule(us=pauses)
    def time_passes(self, us: int) -> None:
        self.true_us += us
        self._set_clock()

    @precondition(lambda self: not self.model.live_markers())
    @rule()
    def the_clock_is_set_an_hour_ahead_and_back(self) -> None:
        """Not while a marker counts; which of those that do not any more are still stored is not modelled."""
        for who in self.desk.state().markers:
            self.desk.wire.call("HDEL", self.desk.keys.waiters, b"m" + who)
        self.model.markers.clear()
        self.ahead = HOUR - self.ahead
        self._set_clock()

    @rule(channel=st.sampled_from(INBOXES))
    def an_inbox_comes_or_goes(self, channel: bytes) -> None:
        if channel in self.model.listening:
            self.ear.unsubscribe(channel)
        else:
            self.ear.subscribe(channel)
        self.model.listening ^= {channel}

    def _set_clock(self) -> None:
        self.desk.set_clock(self.true_us + self.ahead)
        self.model.set_clock(self.true_us + self.ahead)
        self.desk.expire_due()

    def _compare(self, reply: Any, expected: Any) -> None:
        assert reply == expected

    # What must be true after each step

    @invariant()
    def agrees_with_the_model(self) -> None:
        state = self.desk.state()
        self._heard_the_same()
        self._is_the_same(state)
        self._ends_in_time(state)
        self._is_told_by_an_inspection()

    def _heard_the_same(self) -> None:
        rung, self.model.bells = self.model.bells, []
        assert self.ear.rung() == rung

    def _is_the_same(self, state: State) -> None:
        model = self.model
        assert state.line == list(model.line)
        if model.main is None:
            assert not state.value
        else:
            expected = (model.main.owner, model.main.fence, model.main.until)
            assert (state.owner, state.fence, state.main_until) == expected
        markers = {who: until for who, until in state.markers.items() if until >= model.now}
        assert markers == model.live_markers()
        if state.value and (state.line or markers):
            assert state.flagged, "a flag that is not set hides the line, or a marker"

    def _ends_in_time(self, state: State) -> None:
        """No key without an expiry, none that lives longer than what it is for."""
        model = self.model
        self.last_end = max(self.last_end, model.line_until, model.last_until + 1)
        if state.line:
            assert state.line_until == model.line_until
        if state.line or state.markers or state.floor:
            assert state.side_until is not None
            assert state.side_until <= self.last_end
            assert all(entry.expiry <= state.side_until for entry in state.line)

    def _is_told_by_an_inspection(self) -> None:
        holder, fence, label, left, alive = self.model.inspect()
        now, value, shown_left, line, waiting = self.desk.inspect()
        held = value[:2] == b"x1" and shown_left > 0
        assert (value[3:27] if held else None) == holder
        assert (shown_left if held else 0) == left
        assert (value[43:] if held else b"") == label
        assert (int(value[27:43] if value[:2] == b"x1" else value[3:19]) if value else None) == fence
        assert [read_entry(*pair) for pair in zip(line[::2], line[1::2], strict=True)] == alive
        assert (now, waiting) == (self.model.now, len(self.model.line))


@pytest.fixture
def equipped(start_server: StartServer) -> Iterator[type[Machine]]:
    server = start_server()
    desk, ear = ClockworkDesk(server), Inbox(server)
    desk.sweep = SWEEP

    class Equipped(Machine):
        pass

    Equipped.desk, Equipped.ear = desk, ear
    yield Equipped
    desk.close()
    ear.close()


def test_the_scripts_do_what_the_model_does(equipped: type[Machine]) -> None:
    run_state_machine_as_test(
        equipped,
        settings=settings(
            max_examples=EXAMPLES or 150,
            stateful_step_count=40,
            deadline=None,
            derandomize=not EXAMPLES,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
