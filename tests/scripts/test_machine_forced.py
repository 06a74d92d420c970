"""Random sequences as in test_machine.py, in which an operator also releases grants by force."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from holdtight.stores.memory.engine import TAIL
from holdtight.stores.redis.forcing import FORCE
from tests.scripts.test_machine import Machine, owners, play_on, turns
from tests.scripts.workbench import FAR
from tests.support.servers import StartServer

AUDIT = b"ht:audit"
ALARM = b"nobody listens to it"


class ForcedMachine(Machine):
    forced = 0
    """How many acts there were: the id of the last."""

    @rule(who=owners, which=turns, all_of_them=st.booleans(), again=st.booleans())
    def force(self, who: bytes, which: int, all_of_them: bool, again: bool) -> None:
        """One holder, or all; or an owner that may hold nothing. Perhaps the same act again, as after a lost reply."""
        living = [each for each, _ in self._living()]
        those = living if living and all_of_them else [living[which % len(living)]] if living and which else [who]
        if not again or not self.forced:
            self.forced += 1
        number = b"%032d" % self.forced
        self.time_passes(self.tick)
        left = [self.model.left, *(each.expiry - self.model.now for each in self.model.sharing())]
        self.hash_end = max(self.hash_end, self.model.now + max(left) + TAIL)
        parts = [part for owner in those for part in (owner, ALARM, b"{}")]
        request: list[Any] = [number, FAR, 0, 0, 0, "{}", *parts]
        reply = self.desk.wire.call("EVAL", self.desk.text_of(FORCE), 5, *self.desk.keys, AUDIT, *request)
        self._compare(reply, lambda: self.model.force(number, dict.fromkeys(those, ALARM)))

    @precondition(lambda self: self.model.main and not self.model.holders)
    @rule()
    def the_main_key_is_lost(self) -> None:
        """Not while the name is shared: the model, which is the memory store, never loses that key alone. A release by
        force writes it anew for those who still share the name."""
        super().the_main_key_is_lost()

    @precondition(lambda self: not self.model.live_markers() and not self.model.forced)
    @rule()
    def the_clock_is_set_an_hour_ahead_and_back(self) -> None:
        """Nor while a note about a forced grant counts."""
        state = self.desk.wire.call("HKEYS", self.desk.keys.waiters)
        for field in state:
            if field.startswith(b"k") and len(field) == 25:
                self.desk.wire.call("HDEL", self.desk.keys.waiters, field)
        super().the_clock_is_set_an_hour_ahead_and_back()


def test_a_release_by_force_does_what_the_model_does(start_server: StartServer) -> None:
    play_on(ForcedMachine, start_server(), 25)
