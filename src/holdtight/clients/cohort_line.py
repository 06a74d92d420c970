"""The local lines of cohorts: the waiters of one client for one name pass a grant along (decision 0015).

For each name there is a Line with

- a *leader*, at most one: the member that asks the server, by the ordinary paths;
- a *batch*, at most one: the grant that a member got there, while it may be passed on;
- *members*: they sleep, each until it is handed the grant, becomes the leader, or stops waiting by itself.

Invariant: while there are members there is a leader, or a batch and a timer of the keeper. The timer makes the first
member the leader once the batch's window is closed, so that no line depends on what its holder does.

An interrupt (Ctrl-C) may come with any call, and only there. So every change of hands is a few assignments without a
call between them: a member gets its `news` and the leadership or the grant at once, or nothing of these. What follows
may be done twice: waking the member, and taking it off the line. A member with news is no longer in line, wherever it
stands. Code that was interrupted calls `nudge`, and as long as there are members the keeper does the same now and then.

Nothing here blocks or awaits, and nothing here talks to a server. A member is woken by a function of its colour.
"""

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from holdtight.base.plan import Step
from holdtight.base.runtime import Runtime
from holdtight.base.values import LISTED, LockInfo, Owner, Waiter, owner_text
from holdtight.clients.terms import LockTerms
from holdtight.errors import QueueFull
from holdtight.grants.tenure import Tenure
from holdtight.stores.times import FENCES

if TYPE_CHECKING:
    from holdtight.clients.client import BaseLocks

__all__ = ["CLOSED", "LEAD", "WINDOW", "Cohort", "Member", "Turn", "key_of"]

WINDOW = 0.005
"""Seconds for which a grant is passed on: the share of one process while others wait."""
PAUSE = 0.02
"""Seconds between the end of a window and the look of the keeper at the line."""
CHECK = 0.5
"""Seconds between two checks of a line that has members."""

Key = tuple[str, float, str | None]
"""Name, ttl and label: all leases of a batch have the same in these."""


def key_of(name: str, terms: LockTerms) -> Key:
    return name, terms.options.ttl, terms.options.label


class Turn(NamedTuple):
    """The grant, handed to a member: its own fence, and what its tenure is made of."""

    owner: Owner
    fence: int
    sent: float
    marker: int


LEAD = Turn(b"lead", 0, 0.0, 0)
"""The news for a member that it leads from now on."""
CLOSED = Turn(b"closed", 0, 0.0, 0)
"""The news for a member that its client is closed."""
GONE = Turn(b"gone", 0, 0.0, 0)
"""Stands for news in a member that has stopped waiting."""


class Member:
    """One caller that waits, or leads."""

    __slots__ = ("awake", "ended", "news", "owner", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.news: Turn | None = None
        """None while it is in line."""
        self.awake = False
        """It has seen its news."""
        self.ended = False
        """It was handed the grant and has handed it on, before it had a tenure."""
        self.owner: Owner | None = None
        """Made up when an inspection lists it."""

    def wake(self) -> bool:
        """Ends its sleep, from any thread; may be called again. False if that is impossible, because its event loop
        was closed."""
        raise NotImplementedError


class Batch:
    __slots__ = ("holder", "last", "turn", "until")

    def __init__(self, holder: Tenure, until: float) -> None:
        self.turn = Turn(holder.owner, holder.fence, holder.since, holder.marker)
        """The latest one."""
        self.last = holder.fence + FENCES - 1
        self.until = until
        self.holder: Tenure | Member = holder
        """The tenure that holds the grant, or the member that is being woken with it."""


class Line:
    __slots__ = ("batch", "checked", "leader", "members", "timed")

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self.leader: Member | None = None
        self.members: deque[Member] = deque()
        self.timed = False
        """The keeper will look at this line when its batch is over."""
        self.checked = False
        """The keeper will check this line."""


class Cohort:
    """All lines of one client."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lines: dict[Key, Line] = {}
        self._lock = threading.RLock()  # re-entrant: a signal handler may use a lock as well

    def enter(self, key: Key, member: Member, now: float, most: int) -> bool:
        """True if the member leads; otherwise it is in line and must sleep. Raises QueueFull if `most` wait already."""
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = Line()
            batch = line.batch
            is_open = batch is not None and now < batch.until
            if line.leader is None and not is_open and not line.members:
                line.leader = member
                return True
            waiting = len(line.members) + (line.leader is not None)
            if waiting >= most:
                raise QueueFull.at(key[0], waiting, most)
            line.members.append(member)
            if not line.checked:
                self._check_later(key, line)
            if line.leader is None:
                if not is_open:
                    self._promote(line)
                elif not line.timed:
                    self._time(key, line)
            return False

    def begin(self, key: Key, member: Member, tenure: Tenure, now: float) -> None:
        """The leader has a grant, which it may pass on from now on."""
        terms = tenure.terms
        # No lease of a batch is renewed before the window closes: the first renewal is due after `interval`.
        until = min(now + WINDOW, tenure.since + min(terms.interval, terms.valid) / 2)
        with self._lock:
            line = self._lines.get(key)
            if line is None or line.leader is not member:
                return
            batch = Batch(tenure, until)
            line.batch = batch  # no call between these two
            line.leader = None
            if line.members and not line.timed:
                self._time(key, line)

    def hand_on(self, key: Key, holder: Tenure | Member, now: float) -> bool:
        """Hands the grant of this holder to the first member and ends the holder. False if there is no member, or the
        batch is over: then the holder must release the grant, and call `over`."""
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                return False
            batch = line.batch
            if batch is None or batch.holder is not holder:
                return False
            owner, fence, sent, marker = batch.turn
            members = line.members
            if now < batch.until and fence < batch.last and members:
                turn = Turn(owner, fence + 1, sent, marker)
                while members:
                    member = members[0]
                    if member.news is None:
                        # No call until the member is woken: an interrupt must not split these (decision 0033).
                        member.news = batch.turn = turn
                        batch.holder = member
                        holder.ended = True
                        if member.wake():
                            members.popleft()
                            return True
                        batch.holder = holder
                        holder.ended = False
                    members.popleft()
            batch.until = 0.0
            return False

    def take_up(self, key: Key, member: Member, tenure: Tenure) -> None:
        """The member that was handed the grant has a tenure for it."""
        with self._lock:
            line = self._lines.get(key)
            if line is not None and line.batch is not None and line.batch.holder is member:
                line.batch.holder = tenure

    def has(self, key: Key, tenure: Tenure) -> bool:
        """Whether the grant of a batch is with this tenure."""
        with self._lock:
            line = self._lines.get(key)
            return line is not None and line.batch is not None and line.batch.holder is tenure

    def over(self, key: Key, holder: Tenure | Member) -> None:
        """The grant of this holder will not be passed on."""
        with self._lock:
            line = self._lines.get(key)
            if line is not None and line.batch is not None and line.batch.holder is holder:
                line.batch = None
                if line.leader is None:
                    self._promote(line)
                self._tidy(key, line)

    def quit(self, key: Key, member: Member, now: float) -> Turn | None:
        """The member gives up, in whatever state it is. If it has the grant and nobody takes that over, returns its
        turn: the caller must then release the grant, and call `over`."""
        with self._lock:
            if member.news is None:
                member.news = GONE
            line = self._lines.get(key)
            if line is None:
                return None
            if member in line.members:
                line.members.remove(member)
            if line.leader is member:
                line.leader = None
            if line.batch is not None and line.batch.holder is member and not self.hand_on(key, member, now):
                return line.batch.turn
            self._mend(key, line)
            self._tidy(key, line)
            return None

    def nudge(self, key: Key) -> None:
        """Restores the invariant, should an interrupt have broken it."""
        with self._lock:
            line = self._lines.get(key)
            if line is not None:
                self._mend(key, line)
                self._tidy(key, line)

    def close(self) -> None:
        """Wakes all members: their client is closed."""
        with self._lock:
            for line in self._lines.values():
                for member in list(line.members):
                    if member.news is None:
                        member.news = CLOSED
                    member.wake()

    def _promote(self, line: Line) -> None:
        members = line.members
        while members:
            member = members[0]
            if member.news is None:
                member.news = LEAD  # no call between these two
                line.leader = member
                if member.wake():
                    members.popleft()
                    return
                line.leader = None
            members.popleft()

    def _tidy(self, key: Key, line: Line) -> None:
        if line.batch is None and line.leader is None and not line.members and self._lines.get(key) is line:
            del self._lines[key]

    def _mend(self, key: Key, line: Line) -> None:
        """Wakes the leader and the member that was handed the grant, if they do not know it yet. If there is no leader,
        the first member becomes the leader, or will when the window closes."""
        batch = line.batch
        for told in (line.leader, batch.holder if batch is not None else None):
            if isinstance(told, Member) and told.news is not None and not told.awake:
                told.wake()
        if line.leader is None:
            if batch is None or self._runtime.clock() >= batch.until:
                self._promote(line)
            else:
                self._time(key, line)

    def _time(self, key: Key, line: Line) -> None:
        if not line.timed and line.batch is not None and line.members:
            due = max(self._runtime.clock(), line.batch.until) + PAUSE
            self._runtime.keeper.at(due, lambda when: self._look(key, line))
            line.timed = True

    def _look(self, key: Key, line: Line) -> None:
        with self._lock:
            line.timed = False
            if line.leader is not None or not line.members or line.batch is None:
                return
            if self._runtime.clock() >= line.batch.until:
                self._promote(line)
            else:
                self._time(key, line)  # another batch, meanwhile

    def _check_later(self, key: Key, line: Line) -> None:
        self._runtime.keeper.at(self._runtime.clock() + CHECK, lambda when: self._check(key, line))
        line.checked = True

    def _check(self, key: Key, line: Line) -> None:
        """As `nudge`, in the keeper, which gets no interrupts."""
        with self._lock:
            line.checked = False
            if line.members:
                self._mend(key, line)
            if line.members:
                self._check_later(key, line)
            self._tidy(key, line)

    # For inspections.

    def inspected(self, prepared: Any, locks: "BaseLocks[Any]") -> "Inspected":
        return Inspected(self, prepared, locks)

    def waiters(self, name: str, locks: "BaseLocks[Any]") -> list[Waiter]:
        found: list[Waiter] = []
        with self._lock:
            for key, line in self._lines.items():
                for member in line.members if key[0] == name else ():
                    if member.news is not None:
                        continue
                    member.owner = member.owner or locks.client.owner()
                    since = locks.client.server_time(member.since)
                    found.append(Waiter(owner_text(member.owner), label=key[2], since=since))
        return found


class Inspected(NamedTuple):
    """A claim whose inspection also lists the local members, behind the server's waiters."""

    cohort: Cohort
    prepared: Any
    locks: Any

    def inspect_step(self, most: int = LISTED) -> Step:
        step: Step = self.prepared.inspect_step(most)
        read = step.read

        def with_members(reply: Any, sent: float) -> LockInfo:
            info: LockInfo = read(reply, sent)
            local = self.cohort.waiters(info.name, self.locks)
            waiters = (*info.waiters, *local[: max(0, LISTED - len(info.waiters))])
            return info._replace(waiters=waiters, waiting=info.waiting + len(local))

        step.read = with_members
        return step
