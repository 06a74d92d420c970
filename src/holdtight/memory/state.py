"""One name as it stands: what is held and by whom, who waits, and the clock that ends it all."""

from dataclasses import dataclass, field

from holdtight.memory.holders import Holders
from holdtight.memory.line import Entry, Line

__all__ = ["CLAIM", "FRESH", "HEARTBEAT", "SWEEP", "TAIL", "Main", "State"]

TAIL = 10_000
CLAIM = 500
HEARTBEAT = 5_000
SWEEP = 200
FRESH = 200
"""Who was heard of less than that ago is trusted to come when he is rung."""
MANY_MARKERS = 32


@dataclass
class Main:
    """A grant, or without a mode what is left of one; `until` is when the server forgets it.

    Who reads (`r`) or has permits (`p`) stands in `Name.holders`; the fence is the last one given then.
    """

    owner: bytes | None
    fence: int
    until: int
    label: bytes = b""
    mode: str = ""

    def held_by(self, who: bytes) -> bool:
        return self.owner == who


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
    """Of some who have a marker: their renewals with a lower one, or none, are refused as well."""
    many_markers: int = MANY_MARKERS
    listening: set[bytes] = field(default_factory=set[bytes])
    bells: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    last: int = 0
    """The fence of the last grant; the server must know it until `last_until`."""
    last_until: int = 0
    looked: int = 0
    """Up to this number a script that had to stop found nobody who could take it; the next goes on behind."""

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

    def ms_until(self, fence: int) -> int:
        """0 for a fence that the clock has passed."""
        return max(0, -((self.now_us - fence) // 1000))

    def was_set_back(self, main: Main, who: bytes, ttl: int) -> bool:
        """The end of what he has was set before the clock was set back: it lies behind a fence that is ahead."""
        holder = self.holders.alive(who, self.now)
        ends = holder.expiry if holder else main.until - TAIL
        return main.fence > self.now_us + ttl * 1000 and ends * 1000 > main.fence

    # What there is

    @property
    def shared(self) -> str:
        """As what it is shared (`r` or `p`), by the living or the dead; they also tell if the main key was lost."""
        if self.main:
            return self.main.mode if self.main.mode != "x" else ""
        last = self.holders.last()
        return last.mode if last else ""

    @property
    def left(self) -> int:
        """How long the holder still has, or the last of those who share; 0 if there is none."""
        if self.main and self.main.owner:
            return max(0, self.main.until - TAIL - self.now)
        last = self.holders.last()
        return max(0, last.expiry - self.now) if last else 0

    @property
    def holder(self) -> bytes | None:
        """Who holds it exclusively."""
        return self.main.owner if self.main and self.main.owner and self.left else None

    def is_alive(self, entry: Entry) -> bool:
        return entry.expiry > self.now

    def live_markers(self) -> dict[bytes, int]:
        return {who: until for who, until in self.markers.items() if until >= self.now}

    # What is remembered

    def keep_place(self, entry: Entry) -> None:
        entry.expiry = self.now + HEARTBEAT
        self.line_until = entry.expiry

    def is_marked(self, who: bytes) -> bool:
        """It has moved on: what it sent before is refused."""
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
