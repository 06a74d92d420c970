"""The state of one name: its holders, waiters and markers, and the clock on which they expire."""

from dataclasses import dataclass, field
from typing import Any

from holdtight.stores.memory.holders import Holder, Holders
from holdtight.stores.memory.line import Entry, Line
from holdtight.stores.times import CLAIM_MS as CLAIM
from holdtight.stores.times import FENCES, SWEEP
from holdtight.stores.times import FRESH_MS as FRESH
from holdtight.stores.times import HEARTBEAT_MS as HEARTBEAT
from holdtight.stores.times import TAIL_MS as TAIL

__all__ = ["CLAIM", "FRESH", "HEARTBEAT", "SWEEP", "TAIL", "Forced", "Main", "State"]

MANY_MARKERS = 32
BLOCKERS = 100
"""The most readers that deadlock detection follows."""
AHEAD = 50


@dataclass
class Main:
    """A grant, or without a mode its tombstone; the server forgets it at `until`.

    For readers (`r`) and permits (`p`), the holders are in `Name.holders`, and the fence is the last one granted.
    """

    owner: bytes | None
    fence: int
    until: int
    label: bytes = b""
    mode: str = ""

    def held_by(self, who: bytes) -> bool:
        return self.owner == who


@dataclass
class Forced:
    """A grant that was released by force: its fence, and what the force answered under `id`."""

    until: int
    fence: int
    id: bytes
    answer: list[Any]


@dataclass
class State:
    now_us: int
    sweep: int = SWEEP
    main: Main | None = None
    holders: Holders = field(default_factory=Holders)
    holders_until: int = 0
    line: Line = field(default_factory=Line)
    line_until: int = 0
    markers: dict[bytes, int] = field(default_factory=dict[bytes, int])
    ordinals: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """Ordinals of some of the markers: renewals without a higher ordinal are refused as well."""
    forced: dict[bytes, Forced] = field(default_factory=dict[bytes, Forced])
    many_markers: int = MANY_MARKERS
    listening: set[bytes] = field(default_factory=set[bytes])
    bells: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    last: int = 0
    """The fence of the last grant; the server must know it until `last_until`."""
    last_until: int = 0
    looked: int = 0
    """The number up to which a script that had to stop found no taker; the next script continues behind it."""

    # The clock

    @property
    def now(self) -> int:
        return self.now_us // 1000

    def set_clock(self, now_us: int) -> None:
        self.now_us = now_us
        if self.main and self.now > self.main.until:
            self.main = None
        if self.now > self.holders_until:
            self.holders.clear()
        if self.now > self.line_until:
            self.line.clear()
            self.looked = 0
        if self.now > self.last_until:
            self.last = 0
        if self.forced:
            self.forced = {who: each for who, each in self.forced.items() if each.until >= self.now}

    def ms_until(self, fence: int) -> int:
        """Ms until the clock has passed the fence; 0 if it has."""
        return max(0, -((self.now_us - fence) // 1000))

    def was_set_back(self, main: Main, who: bytes, ttl: int) -> bool:
        """Whether the expiry was set before the clock was set back: it lies behind a fence that is ahead of it."""
        holder = self.holders.alive(who, self.now)
        ends = holder.expiry if holder else main.until - TAIL
        return main.fence > self.now_us + ttl * 1000 and ends * 1000 > main.fence

    def reserve(self, main: Main) -> int:
        """Reserves a range of fences for the holder: returns the first, and keeps the last."""
        first = main.fence + 1
        self.last = main.fence = main.fence + FENCES
        self.last_until = max(self.last_until, self.now + self.ms_until(self.last) + TAIL)
        return first

    # Queries

    @property
    def shared(self) -> str:
        """The mode (`r` or `p`) in which the name is shared, by live or expired holders; these tell it even if the main
        key was lost."""
        if self.main:
            return self.main.mode if self.main.mode != "x" else ""
        last = self.holders.last()
        return last.mode if last else ""

    @property
    def left(self) -> int:
        """Ms left to the exclusive holder, or to the last shared holder; 0 if there is none."""
        if self.main and self.main.owner:
            return max(0, self.main.until - TAIL - self.now)
        last = self.holders.last()
        return max(0, last.expiry - self.now) if last else 0

    @property
    def holder(self) -> bytes | None:
        """The exclusive holder."""
        return self.main.owner if self.main and self.main.owner and self.left else None

    def is_alive(self, entry: Entry) -> bool:
        return entry.expiry > self.now

    def live_markers(self) -> dict[bytes, int]:
        return {who: until for who, until in self.markers.items() if until >= self.now}

    def not_ours(self, who: bytes, holder: bytes | None, fence: int = 0) -> list[Any]:
        """The answer to an owner that does not hold the name. It leaves out a forced grant with another fence."""
        forced = self.forced.get(who)
        return [0, holder or b"", *([b"%016d" % forced.fence] if forced and fence in (0, forced.fence) else [])]

    def is_another(self, who: bytes, fence: int) -> bool:
        """Whether the request names a fence, and this owner's grant has another one."""
        if not fence:
            return False
        found = self.main if self.main and self.main.held_by(who) else self.holders.get(who)
        return found is not None and found.fence != fence

    def inspect(self) -> tuple[bytes | None, int | None, bytes, int, list[Entry]]:
        """Exclusive holder, last fence, label, time left, and the live waiters; see `sharing` for shared holders."""
        alive = [entry for entry in self.line if self.is_alive(entry)]
        fence = self.main.fence if self.main else None
        label = self.main.label if self.main and self.holder else b""
        return self.holder, fence, label, self.left, alive

    def sharing(self) -> list[Holder]:
        """The shared holders, in the order of their fences."""
        return self.holders.by_fence(self.now)

    def blockers(self, who: bytes) -> list[bytes]:
        """The holders that block a waiter, for deadlock detection: none, unless it is certain.

        A holder that is still in the queue was handed the name and is about to run. A writer, and a reader behind a
        writer, must wait for every reader. A waiter for permits waits for any of many holders; no single one blocks it.
        Readers whose main key was lost learn that when they renew: a wait that this ends is no deadlock.
        """
        entry = self.line.get(who)
        if entry is None or not self.is_alive(entry) or not self._is_there(entry):
            return []
        if self.holder:
            return [] if self.holder in self.line else [self.holder]
        if not self.main or self.main.mode != "r" or not (entry.mode == "x" or self._behind_a_writer(entry)):
            return []
        readers = self.holders.living(self.now, BLOCKERS)
        return [each.owner for each in readers if each.owner not in self.line]

    def _behind_a_writer(self, entry: Entry) -> bool:
        ahead = self.line.some(0, min(self.line.place(entry.number), AHEAD))
        return any(each.mode == "x" and self.is_alive(each) and not each.passed_over for each in ahead)

    def _is_there(self, entry: Entry) -> bool:
        """False only if the inbox has no subscriber; a waiter without an inbox polls."""
        return not entry.inbox or entry.inbox in self.listening

    # Places and markers

    def keep_place(self, entry: Entry, kept: int = HEARTBEAT) -> None:
        entry.expiry = self.now + kept
        self.line_until = max(self.line_until, entry.expiry)

    def is_marked(self, who: bytes) -> bool:
        """True if the owner has moved on: its earlier requests are refused."""
        return self.markers.get(who, -1) >= self.now

    def mark(self, who: bytes, marker: int, ordinal: int = 0) -> None:
        self.markers[who] = marker
        if ordinal:
            self.ordinals[who] = ordinal
        else:
            self.ordinals.pop(who, None)
        if len(self.markers) > self.many_markers:
            self.drop_lapsed_markers()
            self.many_markers = max(MANY_MARKERS, 2 * len(self.markers))

    def drop_lapsed_markers(self) -> None:
        self.markers = self.live_markers()
        self.ordinals = {who: ordinal for who, ordinal in self.ordinals.items() if who in self.markers}

    def look_again(self, who: bytes) -> None:
        """A waiter that attempts again is no longer passed over."""
        entry = self.line.get(who)
        if entry and entry.passed_over:
            entry.passed_over = False
            self.looked = 0

    def sweep_some(self) -> None:
        """Drops dead waiters from a full queue; from another part of a long queue each time."""
        surplus = len(self.line) - self.sweep
        start = self.now % (surplus + 1) if surplus > 0 else 0
        for entry in self.line.some(start, self.sweep):
            if not self.is_alive(entry):
                self.line.leave(entry.owner)
