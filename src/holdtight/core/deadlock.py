"""Deadlocks: found by the waiters themselves, across locks, processes and machines.

Whoever waits with locks in hand (of `with` blocks: only those end nowhere else) now and then

1. *publishes* for each of them: the owner of this grant waits for that name, as that waiter;
2. *follows*: who keeps me from the name I wait for → what has that owner published → does that waiter stand in line
   there → who keeps it from that name → … until a grant of its own turns up. That is a cycle, if it is true;
3. *reads* the cycle once more from end to end. Only if nothing has changed is it believed.

A waiter publishes before it looks, so the last of a cycle to publish sees all of it.

Why two readings are proof. An edge of the cycle is "grant G keeps waiter W from a name, and the task or thread that has
G waits as V". Owners are fresh for every acquisition, and what has been published about G was published once G was
safely held; so an edge that ends never comes back. One that is there in the first reading and in the second was there
at every moment in between. So all of them were there at once: at the moment when the first reading ended. One
reading alone proves nothing: its first edge may be gone before its last one comes to be.

What is published binds G to V and nothing more; it may outlive the wait. That V still waits is said by the line of its
name (see blockers.lua), in the same breath as who keeps it from there. Whoever was handed a name and has not confirmed
is about to run, and a process that was killed waits no more: both end the search.

The *victim* is the member with the highest waiter, which all members know alike: it gives up, the others go on
waiting. A victim that does not act (its event loop is blocked) is stood in for by the next after GRACE seconds, and so
on. A cycle ends just as well when one of its waits ends, or the ttl of a member that died.

A waiter that several owners keep from a name (a writer, by readers) needs all of them to end, so a cycle through any
one of them is a deadlock: `blockers_step` returns them all. A waiter for whom it is enough that some of them end
(permits) must be answered with nobody.

# Invariants:
# - a run is not parked: after every Step it asks whether a bell has rung meanwhile, and if so ends at once;
# - no failure of a run fails the acquisition: without an answer, the waiter just goes on waiting.
"""

import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol

from holdtight.base.plan import Bell, LinkDown, Park, ServerSaid, Step
from holdtight.base.values import Holder, Member, Owner, Wait, owner_text
from holdtight.errors import DeadlockDetected

__all__ = ["Ledger", "Tally", "Watch"]

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 3.0
"""Between two runs of one waiter; well below the life of what it has published."""
MOST_WAITERS = 64
MOST_REQUESTS = 2 * MOST_WAITERS
MOST_PUBLISHED = 64
"""Of the locks in hand, the last taken. A cycle through one of the others is seen by nobody but us, and in the end (see
GRACE) it is us who ends it."""
GRACE = 5.0
_NEVER = float("inf")


class Ledger(Protocol):
    """What a store offers where deadlocks can be found. What a run asks is asked aside (see base/plan.py)."""

    def publish_step(self, holder: Owner, wait: Wait) -> Step: ...
    def retract_step(self, holder: Owner, waiter: Owner) -> Step: ...
    def published_step(self, holder: Owner) -> Step: ...
    def blockers_step(self, name: str, waiter: Owner) -> Step: ...
    def records_step(self, owners: list[Owner]) -> Step: ...


class Tally:
    """Of all waiters of one client. Threads add without a lock: what is lost that way makes it too low."""

    __slots__ = ("dismissed", "failures", "found", "runs")

    def __init__(self) -> None:
        self.runs = 0
        """Runs that came to an end: neither broken off by a bell nor failed."""
        self.failures = 0
        """Runs that the server refused, for lack of memory or rights."""
        self.dismissed = 0
        """Cycles that the first reading found and the second did not."""
        self.found = 0
        """Cycles that ended a wait of ours."""


class Edge(NamedTuple):
    """`holder` keeps `wait.waiter` from `wait.name`."""

    wait: Wait
    holder: Owner


Cycle = tuple[Edge, ...]
"""The first edge's wait is our own, the last one's holder is ours; each holder between them has the next wait."""


class _BrokenOff(Exception):
    """There is something better to do."""


class Watch:
    """The detector of one wait. `held` tells the owners of the grants in hand, each time anew."""

    def __init__(
        self,
        ledger: Ledger,
        wait: Wait,
        held: Callable[[], Sequence[Owner]],
        *,
        started: float,
        after: float,
        clock: Callable[[], float],
        tally: Tally,
    ) -> None:
        self._ledger = ledger
        self._wait = wait
        self._held = held
        self._started = started
        self._after = after
        self._clock = clock
        self._tally = tally
        self.due = started + after
        """When to run next."""
        self._published: dict[Owner, None] = {}
        self._first_seen: tuple[Cycle, float] | None = None
        """A cycle of which another is the victim, and since when we know it."""
        self._touch: Callable[[bytes], bytes] | None = None
        self._look_at = _NEVER
        self._until = _NEVER

    def run(self, touch: Callable[[bytes], bytes], until: float) -> Generator[Step | Park, Any, float]:
        """Returns when to attempt again because of a bell that has rung meanwhile; at the latest at `until` it ends.

        DeadlockDetected if there is a cycle and we are its victim. LinkDown goes through: the inbox is gone as well.
        """
        self._touch, self._until, self._look_at = touch, until, _NEVER
        try:
            held = self._held()
            if held:
                yield from self._publish(held)
                cycle = yield from self._find(frozenset(held))
                if cycle is not None and not (yield from self._is_still_there(cycle)):
                    self._tally.dismissed += 1
                    cycle = None
                self._tally.runs += 1
                yield from self._judge(cycle)
        except _BrokenOff:
            pass
        except ServerSaid:
            self._tally.failures += 1
        finally:
            self.due = self._clock() + self._pause()
        return self._look_at

    def retract(self) -> Generator[Step | Park, Any, None]:
        """The wait is over, one way or the other."""
        while self._published:
            holder, _ = self._published.popitem()
            try:
                yield self._ledger.retract_step(holder, self._wait.waiter)
            except (LinkDown, ServerSaid):
                pass  # it lapses

    def _pause(self) -> float:
        return min(max(self._after, SHORTEST_PAUSE), LONGEST_PAUSE) * random.uniform(0.75, 1.25)

    def _ask(self, step: Step) -> Generator[Step | Park, Any, Any]:
        answer = yield step
        while True:
            now = self._clock()
            bell: Bell | None = yield Park(self._wait.waiter, now, self._touch)
            if bell is None:
                break
            self._look_at = min(self._look_at, now + (bell.look or 0.0))
        if self._look_at <= now or now >= self._until:
            raise _BrokenOff
        return answer

    def _publish(self, held: Sequence[Owner]) -> Generator[Step | Park, Any, None]:
        for holder in held[-MOST_PUBLISHED:]:
            self._published[holder] = None  # from here on: the request may arrive though its answer does not
            yield from self._ask(self._ledger.publish_step(holder, self._wait))

    def _find(self, own: frozenset[Owner]) -> Generator[Step | Park, Any, Cycle | None]:
        """The shortest way from our wait to a grant of our own."""
        ways: deque[tuple[Cycle, Wait]] = deque([((), self._wait)])
        seen = {self._wait.waiter}
        requests = 0
        while ways:
            way, wait = ways.popleft()
            holders: tuple[Owner, ...] = yield from self._ask(self._ledger.blockers_step(wait.name, wait.waiter))
            requests += 1
            for holder in holders:
                here = (*way, Edge(wait, holder))
                if holder in own:
                    return here
                if requests >= MOST_REQUESTS:
                    return None
                onward: Wait | None = yield from self._ask(self._ledger.published_step(holder))
                requests += 1
                if onward is not None and onward.waiter not in seen:
                    seen.add(onward.waiter)
                    ways.append((here, onward))
        return None

    def _is_still_there(self, cycle: Cycle) -> Generator[Step | Park, Any, bool]:
        """The second reading."""
        for at, (wait, holder) in enumerate(cycle, 1):
            if holder not in (yield from self._ask(self._ledger.blockers_step(wait.name, wait.waiter))):
                return False
            if at < len(cycle) and (yield from self._ask(self._ledger.published_step(holder))) != cycle[at].wait:
                return False
        return True

    def _judge(self, cycle: Cycle | None) -> Generator[Step | Park, Any, None]:
        if cycle is None:
            self._first_seen = None
            return
        now = self._clock()
        if self._first_seen is None or self._first_seen[0] != cycle:
            self._first_seen = cycle, now
        before_us = sum(edge.wait.waiter > self._wait.waiter for edge in cycle)
        if now - self._first_seen[1] >= before_us * GRACE:
            self._tally.found += 1
            raise (yield from self._error(cycle))

    def _error(self, cycle: Cycle) -> Generator[Step | Park, Any, DeadlockDetected]:
        """With everybody named as well as can be had."""
        owners = [cycle[-1].holder, *(edge.holder for edge in cycle[:-1])]
        try:
            records: list[dict[str, Any]] = yield self._ledger.records_step(owners)
        except (LinkDown, ServerSaid):
            records = [{} for _ in owners]
        members = tuple(
            Member(
                holds=before.wait.name,
                waits_for=edge.wait.name,
                owner=owner_text(before.holder),
                waiter=owner_text(edge.wait.waiter),
                host=record.get("host"),
                pid=record.get("pid"),
                who=edge.wait.who,
                label=edge.wait.label,
            )
            for before, edge, record in zip((cycle[-1], *cycle[:-1]), cycle, records, strict=True)
        )
        next_one = members[1 % len(members)]
        holder = Holder(next_one.owner, host=next_one.host, pid=next_one.pid, label=next_one.label)
        return DeadlockDetected.among(members, holder, self._clock() - self._started)
