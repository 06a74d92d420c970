"""What must be true of a name without any model: checked on the server alone, after each step.

    promises.asked(who, permits, reply)    # after each request for permits
    promises.forgotten()                   # the server may know no fence any more
    promises.clock_set_back(state, now)    # before the clock is set back
    promises.kept(state, now)

Each of them fails by an AssertionError.
"""

from __future__ import annotations

from typing import Any

from holdtight.stores.memory.engine import TAIL
from tests.scripts.workbench import State

__all__ = ["Promises"]


class Promises:
    def __init__(self) -> None:
        self._wished: dict[bytes, int] = {}
        self._limits: dict[tuple[bytes, int], int] = {}
        """By owner and fence: the limit in the request that was granted."""
        self._seen: set[tuple[bytes | None, int]] = set()
        self._highest = 0
        self._revived: set[int] = set()

    def asked(self, who: bytes, permits: int, reply: Any) -> None:
        granted = isinstance(reply, bytes) or (isinstance(reply, list) and reply[0] == 1)
        if granted or (isinstance(reply, list) and reply[0] == 0 and reply[4] > 0):
            self._wished[who] = permits

    def forgotten(self) -> None:
        self._highest = 0

    def clock_set_back(self, state: State, now: int) -> None:
        """A dead holder may seem alive again: while clocks are stepped, no exclusion is promised."""
        self._revived |= {holder.fence for holder in state.holders if holder.expiry <= now}

    def kept(self, state: State, now: int) -> None:
        self._alone_or_together(state, now)
        self._no_more_permits_than_some_request_allowed(state, now)
        self._fences_rise(state)

    def _alone_or_together(self, state: State, now: int) -> None:
        alone = state.mode == "x" and state.main_until is not None and state.main_until - TAIL > now
        living = [holder for holder in state.holders if holder.expiry > now]
        assert not (alone and living), "a writer and a reader at the same time"
        if state.value:
            assert {holder.mode for holder in living} <= {state.mode}
        if state.mode in ("x", ""):
            assert not state.value or not state.holders

    def _no_more_permits_than_some_request_allowed(self, state: State, now: int) -> None:
        out = [each for each in state.holders if each.expiry > now and each.mode == "p"]
        these = {(each.owner, each.fence): self._wished[each.owner] for each in state.holders if each.mode == "p"}
        self._limits = {key: self._limits.get(key, wished) for key, wished in these.items()}
        if out and not any(each.fence in self._revived for each in out):
            assert sum(each.n for each in out) <= max(self._limits[each.owner, each.fence] for each in out)
        if any(each.n > 1 for each in state.holders) and state.mode == "p":
            assert state.value.endswith(b"+"), "or they are counted as one each"

    def _fences_rise(self, state: State) -> None:
        there = {(holder.owner, holder.fence) for holder in state.holders}
        if state.owner:
            there.add((state.owner, state.fence))
        fences = sorted(fence for _, fence in there - self._seen)
        assert all(fence > self._highest for fence in fences)
        assert len(set(fences)) == len(fences), "two grants with the same fence"
        self._seen |= there
        self._highest = max(self._highest, *fences, 0)
