"""Compares the scripts with the model, after each step of a random sequence.

Compared are every reply, the holders, the line, the markers that still count, all expiries, and the bells that a real
subscribed connection has received.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from holdtight.base.plan import ServerSaid as Refusal
from holdtight.stores.memory.engine import HEARTBEAT, TAIL, Name
from holdtight.stores.memory.verbs import long_form
from tests.scripts.clockwork import ClockworkDesk
from tests.scripts.promises import Promises
from tests.scripts.workbench import Inbox, State, read_entry, read_holder
from tests.support.raw import ServerSaid

__all__ = ["ComparedMachine"]


class ComparedMachine(RuleBasedStateMachine):
    desk: ClockworkDesk
    inbox: Inbox
    model: Name
    promises: Promises
    true_us: int
    ahead: int
    """How far the server's clock is ahead of the true time, in µs."""

    def begin_comparing(self) -> None:
        self.hash_end = self.shared_end = 0
        self.was_shared = False

    def _holding(self) -> list[bytes]:
        """The holders, dead or alive."""
        alone = [self.model.main.owner] if self.model.main and self.model.main.owner else []
        return [*alone, *(holder.owner for holder in self.model.holders)]

    def _living(self) -> list[tuple[bytes, str]]:
        alone = [(self.model.holder, "x")] if self.model.holder else []
        return [*alone, *((holder.owner, holder.mode) for holder in self.model.sharing())]

    def _one_of_the_living(self, which: int) -> tuple[bytes, str]:
        those = self._living()
        return those[which % len(those)]

    def _set_clock(self) -> None:
        self.desk.set_clock(self.true_us + self.ahead)
        self.model.set_clock(self.true_us + self.ahead)
        self.desk.expire_due()

    def _compare(self, reply: Any, act: Callable[[], Any]) -> None:
        try:
            expected = act()
        except Refusal as refusal:
            expected = f"refused: {refusal}"
        assert (f"refused: {reply}" if isinstance(reply, ServerSaid) else long_form(reply)) == expected

    # What must be true after each step

    @invariant()
    def agrees_with_the_model(self) -> None:
        state = self.desk.state()
        self._heard_the_same()
        self._is_the_same(state)
        self._ends_in_time(state)
        self._is_told_by_an_inspection()
        self._knows_who_keeps_whom()
        if not self.model.last:
            self.promises.forgotten()
        self.promises.kept(state, self.model.now)

    def _heard_the_same(self) -> None:
        rung, self.model.bells = self.model.bells, []
        assert self.inbox.rung() == rung

    def _is_the_same(self, state: State) -> None:
        model = self.model
        assert state.line == list(model.line)
        assert state.holders == list(model.holders)
        if model.main is None:
            assert not state.value
        else:
            expected = (model.main.mode, model.main.owner, model.main.fence, model.main.until)
            assert (state.mode, state.owner, state.fence, state.main_until) == expected
        markers = {who: until for who, until in state.markers.items() if until >= model.now}
        assert markers == model.live_markers()
        ordinals = {who: number for who, number in state.ordinals.items() if who in markers}
        assert ordinals == {who: number for who, number in model.ordinals.items() if who in markers}
        if state.value and (state.line or markers):
            assert state.flagged, "a flag that is not set hides the line, or a marker"

    def _ends_in_time(self, state: State) -> None:
        """No key without an expiry, none that lives longer than what it is for."""
        model = self.model
        if state.line:
            assert state.line_until == model.line_until
        if state.holders:
            assert state.holders_until == model.holders_until
            assert state.side_until is not None
            assert state.side_until >= model.holders_until
        soon = model.now + HEARTBEAT
        self.hash_end = max(self.hash_end, soon)
        if model.shared:
            self.shared_end = max(self.shared_end, model.holders_until)
        elif self.was_shared and model.main:
            self.shared_end = min(self.shared_end, soon)  # the script that ends it leaves nothing for longer
        elif self.was_shared:
            self.hash_end = max(self.hash_end, self.shared_end)
        self.was_shared = model.shared != ""
        if model.last > model.now_us:
            self.hash_end = max(self.hash_end, model.last // 1000 + TAIL + 1)
        if state.line or state.markers or state.floor:
            assert state.side_until is not None
            assert state.side_until <= max(self.hash_end, self.shared_end)
            # The line is not kept longer either; an entry's own time may be an hour ahead once the clock was set back.
            assert all(min(entry.expiry, model.line_until) <= state.side_until for entry in state.line)

    def _is_told_by_an_inspection(self) -> None:
        holder, fence, label, left, alive = self.model.inspect()
        now, value, shown_left, sharing, line, waiting, living = self.desk.inspect()
        alone = value[:2] == b"x1" and shown_left > 0
        assert (value[3:27] if alone else None) == holder
        assert max(shown_left, 0) == left
        assert (value[43:] if alone else b"") == label
        assert (int(value[27:43] if value[:2] == b"x1" else value[3:19]) if value else None) == fence
        told = zip(sharing[::3], sharing[1::3], sharing[2::3], strict=True)
        assert [read_holder(who, text, now + ms) for who, text, ms in told] == self.model.sharing()
        assert [read_entry(*pair) for pair in zip(line[::2], line[1::2], strict=True)] == alive
        assert (now, waiting, living) == (self.model.now, len(self.model.line), len(self._living()))

    def _knows_who_keeps_whom(self) -> None:
        for entry in self.model.line.some(0, 3):
            assert self.desk.blockers(entry.owner) == self.model.blockers(entry.owner)
