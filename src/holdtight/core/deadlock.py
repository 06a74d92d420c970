"""Deadlock detection by the waiters themselves, across locks, processes and machines.

Now and then a waiter that holds locks (in `with` blocks: only there is it certain that no other code releases them)

1. *publishes* for each of them: the owner of this grant waits for that name, as that waiter;
2. *follows* the chain: which owner blocks me → what has that owner published → is that waiter in line there → which
   owner blocks it → … until a grant of its own turns up. That is a possible cycle;
3. *reads* the cycle once more from end to end, and believes it only if nothing has changed.

A waiter publishes before it searches, so the last member of a cycle to publish sees all of it.

Why two readings are proof. An edge of the cycle is "grant G blocks waiter W on a name, and the task or thread that has
G waits as V". Owners are fresh for every acquisition, and a wait is published for G only once G is safely held; so an
edge that ends never comes back. An edge that is present in both readings was present at every moment in between. So
all edges were present at the same time: at the moment when the first reading ended. One reading alone proves nothing:
its first edge may end before its last one begins.

A published record only binds G to V; it may outlive the wait. The line of V's name says whether V still waits, in the
same step as which owners block it (see blockers.lua). A waiter that was handed the name and has not confirmed is about
to run, and a killed process no longer waits: both end the search.

The *victim* is the member with the highest waiter id, on which all members agree: it gives up, and the others keep
waiting. If it does not act (its event loop is blocked), the next member gives up after GRACE seconds, and so on. A
cycle also ends when one of its waits ends, or with the ttl of a member that died.

Others may wait for the code of a waiter, as threads wait for the thread that computes a value (`single_flight`). What
they hold counts as held by the waiter, who publishes it too: they cannot go on before it does. If one of them gives up,
the next run retracts its record. Until then another process may still be told of a cycle that this has just ended.

A waiter that several owners block (a writer, by readers) needs all of them to release, so a cycle through any one of
them is a deadlock: `blockers_step` returns them all. For a waiter that needs only some of them to release (permits) it
must return none.

Invariants:
- a run does not sleep: after every Step it checks whether a bell has rung meanwhile, and if so ends at once. A Step
  may go to another server than the one that rings; the driver gives that server little time, and a run that it does not
  answer in time has failed;
- no failure of a run fails the acquisition: without an answer, the waiter keeps waiting.
"""

import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol

from holdtight.base.plan import Bell, Elsewhere, LinkDown, Park, ServerSaid, Step
from holdtight.base.values import Holder, Member, Owner, Wait, owner_text
from holdtight.errors import DeadlockDetected

__all__ = ["Ledger", "Tally", "Watch"]

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 3.0
"""Pause between two runs of one waiter; well below the lifetime of its published records."""
MOST_WAITERS = 64
MOST_REQUESTS = 2 * MOST_WAITERS
MOST_PUBLISHED = 64
"""A waiter publishes only the locks that it took last. Only the waiter itself can see a cycle through one of the
others, and it ends that cycle after GRACE seconds."""
GRACE = 5.0
_NEVER = float("inf")


class Ledger(Protocol):
    """What a store must offer for deadlock detection. The Steps of a run have `aside=True` (see base/plan.py)."""

    def publish_step(self, holder: Owner, wait: Wait) -> Step: ...
    def retract_step(self, holder: Owner, waiter: Owner) -> Step: ...
    def published_step(self, holder: Owner) -> Step: ...
    def blockers_step(self, name: str, waiter: Owner) -> Step: ...
    def records_step(self, owners: list[Owner]) -> Step: ...


class Tally:
    """Counts for all waiters of one client. Threads add without a lock, so the counts may be too low."""

    __slots__ = ("dismissed", "failures", "found", "runs")

    def __init__(self) -> None:
        self.runs = 0
        """Completed runs: neither interrupted by a bell nor failed."""
        self.failures = 0
        """Runs that the server refused, for lack of memory or permissions, or that another server of the cluster did
        not answer."""
        self.dismissed = 0
        """Cycles that the first reading found and the second did not confirm."""
        self.found = 0
        """Cycles that ended one of our waits."""


class Edge(NamedTuple):
    """`holder` blocks `wait.waiter` on `wait.name`."""

    wait: Wait
    holder: Owner


Cycle = tuple[Edge, ...]
"""The first edge's wait and the last edge's holder are ours; each other edge's holder has the next edge's wait."""


class _BrokenOff(Exception):
    """A bell has rung, or the wait has ended: the run stops."""


class Watch:
    """The deadlock detector of one wait. `held` returns the owners of the grants that the waiter, and everybody who
    waits for it, holds now."""

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
        """A cycle with another victim, and when we first saw it."""
        self._touch: Callable[[bytes], bytes] | None = None
        self._look_at = _NEVER
        self._until = _NEVER

    def run(self, touch: Callable[[bytes], bytes], until: float) -> Generator[Step | Park, Any, float]:
        """Returns when to attempt again because of a bell that rang meanwhile. Ends at `until` at the latest.

        Raises DeadlockDetected if there is a cycle and we are its victim. LinkDown passes through: the inbox is gone,
        unless it is Elsewhere.
        """
        self._touch, self._until, self._look_at = touch, until, _NEVER
        try:
            held = self._held()
            yield from self._retract(set(self._published).difference(held))
            if held:
                yield from self._publish(held)
                cycle = yield from self._find(frozenset(held))
                if cycle is not None and not (
                    (yield from self._is_still_there(cycle)) and cycle[-1].holder in self._held()
                ):
                    self._tally.dismissed += 1
                    cycle = None
                self._tally.runs += 1
                yield from self._judge(cycle)
        except _BrokenOff:
            pass
        except (ServerSaid, Elsewhere):
            self._tally.failures += 1
        finally:
            self.due = self._clock() + self._pause()
        return self._look_at

    def retract(self) -> Generator[Step | Park, Any, None]:
        """Removes the published records after the wait."""
        for holder in list(self._published):
            del self._published[holder]
            try:
                yield self._ledger.retract_step(holder, self._wait.waiter)
            except (LinkDown, ServerSaid):
                pass  # the record expires

    def _retract(self, gone: set[Owner]) -> Generator[Step | Park, Any, None]:
        """Removes the records of grants that do not wait any more: their holders waited for this code, and gave up."""
        for holder in gone:
            del self._published[holder]
            yield from self._ask(self._ledger.retract_step(holder, self._wait.waiter))

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
            self._published[holder] = None  # before the request: it may arrive though its answer does not
            yield from self._ask(self._ledger.publish_step(holder, self._wait))

    def _find(self, own: frozenset[Owner]) -> Generator[Step | Park, Any, Cycle | None]:
        """Finds the shortest path from our wait to a grant of our own."""
        paths: deque[tuple[Cycle, Wait]] = deque([((), self._wait)])
        seen = {self._wait.waiter}
        requests = 0
        while paths:
            path, wait = paths.popleft()
            holders: tuple[Owner, ...] = yield from self._ask(self._ledger.blockers_step(wait.name, wait.waiter))
            requests += 1
            for holder in holders:
                here = (*path, Edge(wait, holder))
                if holder in own:
                    return here
                if requests >= MOST_REQUESTS:
                    return None
                onward: Wait | None = yield from self._ask(self._ledger.published_step(holder))
                requests += 1
                if onward is not None and onward.waiter not in seen:
                    seen.add(onward.waiter)
                    paths.append((here, onward))
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
        """The error, with what can be found out about each member."""
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
