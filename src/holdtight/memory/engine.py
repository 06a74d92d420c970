"""What one name does, in Python: the memory store's engine, and the specification that the Lua scripts are held to.

A name is free, held, or lapsed: held by somebody whose time is up but who may still be seen for TAIL ms,
so that the next taker learns of it. Beside it stands a line of waiters, each alive until its own expiry, all
of it gone when nobody has kept a place for HEARTBEAT ms. Whoever is *passed over* keeps the place but is
offered nothing until he asks himself. Markers refuse owners that have withdrawn.

Points of time are ms on the server's clock; fences and arrival limits (`not_after`) are µs. Replies are
those of the scripts, except that the short form of a grant (the bare fence) is not told apart: see
`long_form`. How a server stores things (flags, scores, the fence's floor) has no counterpart here; tests/scripts says
what must be true of it.
"""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["CLAIM", "HEARTBEAT", "SWEEP", "TAIL", "Entry", "Main", "Name", "long_form"]

TAIL = 10_000
CLAIM = 500
HEARTBEAT = 5_000
SWEEP = 200
STEP_BACK = 250
RUNNERS_UP = 4

Reply = Any


@dataclass
class Entry:
    """One in line."""

    owner: bytes
    ttl: int
    inbox: bytes
    label: bytes
    joined: int
    expiry: int
    passed_over: bool = False
    number: int = field(default=0, compare=False)


@dataclass
class Main:
    """A grant, or with no owner what is left of one; `until` is when the server forgets it."""

    owner: bytes | None
    fence: int
    until: int
    label: bytes = b""

    def held_by(self, who: bytes) -> bool:
        return self.owner == who


@dataclass
class Name:
    now_us: int
    sweep: int = SWEEP
    main: Main | None = None
    line: list[Entry] = field(default_factory=list[Entry])
    line_until: int = 0
    markers: dict[bytes, int] = field(default_factory=dict[bytes, int])
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
        if self.now > self.line_until:
            self.line.clear()
            self.looked = 0
        if self.now > self.last_until:
            self.last = 0

    def ms_until(self, fence: int) -> int:
        """0 for a fence that the clock has passed."""
        return max(0, -((self.now_us - fence) // 1000))

    # What there is

    @property
    def left(self) -> int:
        """How long the holder still has; 0 if there is none."""
        return max(0, self.main.until - TAIL - self.now) if self.main and self.main.owner else 0

    @property
    def holder(self) -> bytes | None:
        return self.main.owner if self.main and self.left else None

    def in_line(self, who: bytes) -> Entry | None:
        return next((entry for entry in self.line if entry.owner == who), None)

    def is_alive(self, entry: Entry) -> bool:
        return entry.expiry > self.now

    def live_markers(self) -> dict[bytes, int]:
        return {who: until for who, until in self.markers.items() if until >= self.now}

    # The verbs

    def attempt(self, who: bytes, *, ttl: int, limit: int, label: bytes, inbox: bytes, not_after: int) -> Reply:
        if self.now_us > not_after:
            return [-1, self.now]
        if self.holder == who:
            return self._confirm(who, ttl)
        if who in self.live_markers():
            return [-3, self.now]
        self._look_again(who)
        holder, left, more = self.holder or b"", self.left, False
        if not left:
            lapsed = self._lapsed()
            given, more = self._hand_over(who)
            if given == who or not (given or more):
                self._leave(who)
                self._grant(who, ttl, label)
                return [1, b"%d" % self.last, self.now, lapsed]
            holder, left = given or b"", self.left
        if limit == 0:
            return [0, self.now, holder, left, 0, left]
        entry = self.in_line(who)
        if entry is None:
            if len(self.line) >= limit:
                self._sweep_some()
            if len(self.line) >= limit:
                return [-2, self.now, len(self.line)]
            number = max(self.looked, *(each.number for each in self.line), 0) + 1
            entry = Entry(who, ttl, inbox, label, joined=self.now, expiry=0, number=number)
            self.line.append(entry)
        entry.ttl, entry.inbox, entry.label = ttl, inbox, label
        self._keep_place(entry)
        position = self.line.index(entry) + 1
        look = 0 if more else left + min(position - 1, 20) * STEP_BACK
        return [0, self.now, holder, left, position, look]

    def release(self, who: bytes) -> Reply:
        if not self.main or not self.main.held_by(who):
            return [0, self.main.owner or b"" if self.main else b""]
        self._leave(who)
        return self._pass_on()

    def renew(self, who: bytes, *, ttl: int, not_after: int) -> Reply:
        if not self.main or not self.main.held_by(who):
            return [0, self.main.owner or b"" if self.main else b""]
        if not self.left:
            return [0, b""]
        if self.now_us > not_after:
            return [-1, self.now]
        self._arm(self.main, ttl)
        return 1

    def touch(self, who: bytes, inbox: bytes) -> Reply:
        entry = self.in_line(who)
        if entry is None:
            self._ring(inbox, b"g" + who)
            return 0
        self._keep_place(entry)
        return 1

    def withdraw(self, who: bytes, marker: int) -> Reply:
        self._leave(who)
        if marker > self.now:
            self.markers[who] = marker
        if self.main and self.main.held_by(who):
            return self._pass_on()
        if self.left:
            return 1
        given, more = self._hand_over(None)
        return 2 if more and not given else 1

    def adopt(self, old: bytes, who: bytes, *, ttl: int, label: bytes, not_after: int) -> Reply:
        if self.now_us > not_after:
            return [-1, self.now]
        if not self.main or not self.left:
            return [0, self.now, b""]
        if self.main.held_by(who):
            self._arm(self.main, ttl)
        elif self.main.held_by(old):
            self._grant(who, ttl, label)
        else:
            return [0, self.now, self.main.owner]
        return [1, b"%d" % self.main.fence, self.now, b""]

    def inspect(self) -> tuple[bytes | None, int | None, bytes, int, list[Entry]]:
        """Holder, last fence, label, time left, and who is alive in line."""
        alive = [entry for entry in self.line if self.is_alive(entry)]
        fence = self.main.fence if self.main else None
        label = self.main.label if self.main and self.left else b""
        return self.holder, fence, label, self.left, alive

    def blockers(self, who: bytes) -> list[bytes]:
        """Who keeps a waiter from the name, for the detector of deadlocks: nobody, unless it is sure."""
        entry, holder = self.in_line(who), self.holder
        if entry is None or holder is None or not self.is_alive(entry) or self.in_line(holder):
            return []
        return [holder] if not entry.inbox or entry.inbox in self.listening else []

    # How

    def _confirm(self, who: bytes, ttl: int) -> Reply:
        assert self.main
        self._leave(who)
        self._arm(self.main, ttl)
        return [1, b"%d" % self.main.fence, self.now, b""]

    def _grant(self, who: bytes, ttl: int, label: bytes) -> None:
        self.last = max(self.last + 1, self.now_us)
        self.main = Main(who, self.last, 0, label)
        self._arm(self.main, ttl)

    def _arm(self, main: Main, ttl: int) -> None:
        main.until = self.now + ttl + TAIL
        self.last_until = self.now + max(ttl, self.ms_until(main.fence)) + TAIL

    def _lapsed(self) -> bytes:
        """The holder that expired, if any; who missed a hand-over held nothing, and still stands in line."""
        if self.main and self.main.owner and not self.in_line(self.main.owner):
            return self.main.owner
        return b""

    def _pass_on(self) -> Reply:
        assert self.main
        fence, self.main = self.main.fence, None
        given, more = self._hand_over(None)
        if not given:
            until = self.now + self.ms_until(fence) + TAIL
            self.main = Main(None, fence, until)
            self.last_until = until
        return 2 if more else 1

    def _hand_over(self, me: bytes | None) -> tuple[bytes | None, bool]:
        """Gives a free name to the first who can take it. Says to whom, and if others are left to look at."""
        ahead = [entry for entry in self.line if entry.number > self.looked]
        for looks, entry in enumerate(ahead, 1):
            if entry.owner == me:
                return me, False
            if not self.is_alive(entry):
                self.line.remove(entry)
            elif not entry.passed_over:
                reached = self._ring(entry.inbox, b"g" + entry.owner)
                entry.passed_over = True
                if reached:
                    self._grant(entry.owner, min(CLAIM, entry.ttl), entry.label)
                    self._note_runner_up(entry)
                    return entry.owner, False
            if looks == self.sweep:
                self.looked = entry.number
                return None, True
        self.looked = 0
        return None, False

    def _note_runner_up(self, given: Entry) -> None:
        behind = self.line.index(given) + 1
        for entry in self.line[behind : behind + RUNNERS_UP]:
            if self.is_alive(entry) and not entry.passed_over:
                note = b"n%b%d" % (entry.owner, min(CLAIM, given.ttl))
                if self._ring(entry.inbox, note):
                    return

    def _ring(self, inbox: bytes, message: bytes) -> bool:
        """False if nobody listens. Who has no inbox polls, and counts as reached."""
        if inbox in self.listening:
            self.bells.append((inbox, message))
        return not inbox or inbox in self.listening

    def _look_again(self, who: bytes) -> None:
        """Who asks himself is passed over no longer."""
        entry = self.in_line(who)
        if entry and entry.passed_over:
            entry.passed_over = False
            self.looked = 0

    def _keep_place(self, entry: Entry) -> None:
        entry.expiry = self.now + HEARTBEAT
        self.line_until = entry.expiry

    def _sweep_some(self) -> None:
        """A full line is looked through for dead entries, another part of a long one each time."""
        surplus = len(self.line) - self.sweep
        start = self.now % (surplus + 1) if surplus > 0 else 0
        for entry in self.line[start : start + self.sweep]:
            if not self.is_alive(entry):
                self.line.remove(entry)

    def _leave(self, who: bytes) -> None:
        entry = self.in_line(who)
        if entry:
            self.line.remove(entry)


def long_form(reply: Reply) -> Reply:
    """The bare fence says: granted now, with a fence that is the clock, after nobody that expired."""
    return [1, reply, int(reply) // 1000, b""] if isinstance(reply, bytes) else reply
