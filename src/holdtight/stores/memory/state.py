"""The state of one name: its holders, waiters and markers, and the clock on which they expire."""

from dataclasses import dataclass, field

from holdtight.stores.memory.holders import Holders
from holdtight.stores.memory.line import Entry, Line
from holdtight.stores.times import CLAIM_MS as CLAIM
from holdtight.stores.times import FENCES, SWEEP
from holdtight.stores.times import FRESH_MS as FRESH
from holdtight.stores.times import HEARTBEAT_MS as HEARTBEAT
from holdtight.stores.times import TAIL_MS as TAIL

__all__ = ["CLAIM", "FRESH", "HEARTBEAT", "SWEEP", "TAIL", "Main", "State"]

MANY_MARKERS = 32


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

    def ms_until(self, fence: int) -> int:
        """0 for a fence that the clock has passed."""
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

    # Places and markers

    def keep_place(self, entry: Entry) -> None:
        entry.expiry = self.now + HEARTBEAT
        self.line_until = entry.expiry

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
