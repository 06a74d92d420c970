"""The only wait loop: from a first answer other than Grant to a grant or an error.

    attempt ──► Grant ─────────────────────────────► return
       ▲  │
       │  ├──► Queued ──► Park until rung, due, or the wait ends
       │  │                 │ bell with `look`: ask at that moment ──► Park again
       │  │                 │ now and then: search for a deadlock (deadlock.py) ──► Park again
       │  ├──► Denied, look ┤ Park until due, rung, or the wait ends: then once more
       │  ├──► Late ────────┤
       │  └──► LinkDown ────┤ pause, with backoff; also after a grant that too few replicas acknowledged (acks.py)
       └───────────────────┘

One attempt, with the same owner, serves as the first request, as the confirmation of a hand-over and as the
retry after a lost reply: the server answers all three alike. Every way of giving up withdraws: see `_undo`. On a
quorum a round of votes (quorum.py) replaces the attempt, and its withdrawal the undo.

`_briefly` in sync/lock.py parks once and confirms before this loop; everything else comes here, with the answer so far
(base/plan.py has all fast paths). Members of a cohort wait for each other in their process (clients/cohort_line.py).
"""

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from holdtight.base.clock import Backoff
from holdtight.base.plan import CLOCKS_DISAGREE, LinkDown, NoQuorum, Park, Plan, ServerSaid, Step, TooFewAcks, Wish
from holdtight.base.values import (
    Denied,
    Grant,
    Holder,
    Late,
    Outcome,
    Owner,
    Queued,
    QueueIsFull,
    Withdrawn,
    owner_text,
)
from holdtight.core.acks import Acknowledging, attested
from holdtight.core.patience import SHORTEST_PATIENCE, Bounded, patience
from holdtight.errors import ClockDrift, LockError, LockTimeout, QueueFull, QuorumNotReached, Unavailable

if TYPE_CHECKING:
    from holdtight.core.deadlock import Watch
    from holdtight.core.quorum import Poll

__all__ = [
    "SHORTEST_PATIENCE",
    "Answer",
    "Asking",
    "Granted",
    "Kept",
    "Question",
    "abandon",
    "acquire",
    "patience",
]

SWEEPS_OF_A_WAIT = 100

Answer = Outcome | LinkDown | ServerSaid


class Question(Bounded, Protocol):
    """A claim on a store, as the wait loop needs it."""

    @property
    def max_waiters(self) -> int: ...

    def attempt_step(self, owner: Owner, *, now: float, patience: float, queue: bool) -> Step: ...
    def withdraw_step(self, owner: Owner, *, marker: int = 0, otherwise: Step | None = None) -> Step: ...
    def touch_request(self, owner: Owner, inbox: bytes) -> bytes: ...
    def holder_step(self, holder: Owner, left: float) -> Step: ...
    def is_passing(self, said: ServerSaid) -> bool: ...
    def meaning(self, said: ServerSaid) -> LockError: ...


class Granted(NamedTuple):
    """`marker`: the latest moment at which an unanswered attempt may still arrive, in the server's ms; 0 for none."""

    grant: Grant
    marker: int


class Kept(Exception):
    """The wait has ended, but the place in line stays for one heartbeat: the same owner may ask again, anywhere."""

    def __init__(self, queued: Queued) -> None:
        super().__init__(queued)
        self.queued = queued


class Asking:
    """One acquisition in progress."""

    in_line = False
    """The server may know us as a waiter or holder."""
    answered = False
    queued = False
    """We have been in line."""
    marker = 0
    """The latest moment at which an unanswered attempt may still arrive, in the server's ms; 0 for none."""
    pending = 0
    """The same for the attempt in progress."""
    failures = slow_grants = sweeps = position = 0
    tell_queued: Callable[[Queued], None] | None = None
    """Called once with the first answer that puts us in line."""
    before_waiting: Callable[[Owner | None], None] | None = None
    """Called once with the holder's owner before the first wait; an exception from it ends the acquisition."""
    own: Callable[[Owner | None], str | None] | None = None
    """Returns a description if the caller itself is the holder, by a lease that it took with `acquire()`."""
    doubt: Callable[[Owner | None], None] | None = None
    """Called once with the holder's owner at `doubt_at`, if the wait still lasts."""
    doubt_at = float("inf")
    stays = False
    """Keep the place in line when the wait ends: the plan raises Kept."""
    undone = True  # the server has answered the last undo; if not, it may carry it out at any later time
    keeps = False
    """Undo nothing from now on: the same owner asks, or will ask, in another process."""
    acks: Acknowledging | None = None
    longest: float | None = None
    """The patience for all further requests, set once it cannot change any more."""

    def __init__(
        self,
        *,
        question: Question,
        owner: Owner,
        server: str,
        started: float,
        wait: float | None,
        connect_timeout: float,
        retry: Backoff,
        clock: Callable[[], float],
        or_none: bool = False,
        watch: "Watch | None" = None,
        poll: "Poll | None" = None,
        check_open: Callable[[], None] | None = None,
    ) -> None:
        self.question = question
        self.owner = owner
        self.server = server
        self.started = started
        self.wait = wait
        self.connect_timeout = connect_timeout
        self.retry = retry
        self.clock = clock
        self.or_none = or_none
        """Return None instead of raising if the lock is held: `try_acquire`."""
        self.watch = watch
        """Searches for deadlocks; None if we hold nothing and so cannot be part of one."""
        self.poll = poll
        """Asks a quorum; None for one server."""
        self.check_open = check_open
        """Raises if the client has been closed; None if that cannot happen."""

    @property
    def rung_as(self) -> Owner:
        return self.owner if self.poll is None else self.poll.park_owner()

    @property
    def wait_until(self) -> float:
        return float("inf") if self.wait is None else self.started + self.wait

    def wait_left(self) -> float | None:
        return self.wait if not self.wait else max(0.0, self.wait_until - self.clock())

    def patience(self, now: float) -> float:
        if self.longest is not None:
            return self.longest
        left = self.wait if not self.wait else max(self.wait_until - now, SHORTEST_PATIENCE)
        found = patience(self.question, left, None if self.answered else self.connect_timeout)
        if self.answered and self.wait is None:
            self.longest = found
        return found

    def looks_again(self, denied: Denied) -> bool:
        """A store without a line is asked again until the wait ends; the last attempt is made at that moment."""
        return denied.look is not None and self.clock() < self.wait_until

    def unavailable(self, cause: object) -> Unavailable:
        waited = self.clock() - self.started
        if isinstance(cause, NoQuorum):
            return QuorumNotReached.among(self.question.claim.name, cause.nodes, cause.majority, waited)
        if isinstance(cause, TooFewAcks):
            return Unavailable.unacknowledged(self.question.claim.name, self.server, cause.cause, waited)
        return Unavailable.because(self.question.claim.name, self.server, str(cause), waited)


def acquire(asking: Asking, first: Answer | None = None, limit: int = 0) -> Plan[Granted | None]:
    """Continues from the result of a first attempt, if there was one; `limit` is its arrival limit.

    Returns None only if `or_none` is set and another owner holds the lock.
    """
    answer = first
    if isinstance(first, LinkDown) and first.sent:
        asking.marker = limit
    try:
        while True:
            _refuse_if_closed(asking, answer)
            if isinstance(answer, Grant) and asking.acks is not None:
                answer = yield from attested(asking, answer, _undo)
            if isinstance(answer, Grant):
                granted = _check(asking, answer)
                if granted is not None:
                    if asking.watch is not None:
                        yield from asking.watch.retract()
                    return granted
            elif isinstance(answer, Denied) and answer.holder is None and asking.sweeps < SWEEPS_OF_A_WAIT:
                asking.sweeps += 1  # nobody holds it: the server cleared some of many dead waiters; ask again
            elif isinstance(answer, Denied) and asking.or_none and not asking.looks_again(answer):
                yield from _undo(asking)  # an earlier attempt may still arrive
                return None
            elif isinstance(answer, Queued) and asking.stays and asking.clock() >= asking.wait_until:
                asking.keeps = True
                raise Kept(answer)
            elif answer is not None:
                yield from _wait_after(asking, answer)
                _refuse_if_closed(asking, answer)
            answer = yield from _attempt(asking)
    except BaseException:
        yield from _undo(asking)
        raise


def _refuse_if_closed(asking: Asking, answer: Answer | None) -> None:
    """Raises for a waiter what a new call on a closed client raises; `in_line` makes the undo withdraw it."""
    if asking.check_open is not None:
        asking.in_line = asking.in_line or isinstance(answer, (Grant, Queued))
        asking.check_open()


def abandon(asking: Asking, limit: int) -> Plan[None]:
    """Gives up while the first attempt is unanswered on its connection."""
    asking.pending = limit
    yield from _undo(asking)


def _attempt(asking: Asking) -> Generator[Wish, Any, Answer]:
    if asking.poll is not None:
        return (yield from asking.poll.attempt(asking))
    now = asking.clock()
    patience = asking.patience(now)
    step = asking.question.attempt_step(
        asking.owner, now=now, patience=patience, queue=asking.wait != 0 or asking.stays
    )
    asking.pending = step.limit
    try:
        outcome: Outcome = yield step
    except LinkDown as down:
        if down.sent:
            asking.marker = max(asking.marker, asking.pending)
        asking.pending = 0
        return down
    except ServerSaid as said:
        asking.pending = 0
        return said
    asking.pending = 0
    return outcome


def _check(asking: Asking, grant: Grant) -> Granted | None:
    """Returns None if the reply took most of the ttl: the same owner then asks once more and gets a ttl from now."""
    spent = asking.clock() - grant.sent
    if spent < asking.question.valid:
        return Granted(grant, asking.marker)
    asking.in_line = True  # we hold it, and must release it if we stop here
    asking.slow_grants += 1
    if asking.slow_grants >= 3 or asking.clock() >= asking.wait_until:
        raise ClockDrift.on(asking.question.claim.name, asking.question.claim.ttl, spent)
    return None


def _wait_after(asking: Asking, answer: Answer) -> Generator[Wish, Any, None]:
    """Waits until another attempt makes sense; raises if none ever will."""
    match answer:
        case Queued():
            asking.answered = asking.in_line = asking.queued = True
            asking.failures = 0
            asking.position = answer.position
            if asking.tell_queued is not None:
                tell, asking.tell_queued = asking.tell_queued, None
                tell(answer)
            if asking.before_waiting is not None:
                check, asking.before_waiting = asking.before_waiting, None
                check(answer.holder)
            yield from _stand_in_line(asking, answer)
        case Denied():
            # `or_none`: acquire() has just seen time left, so the last attempt is still to be made.
            if not (asking.or_none or asking.looks_again(answer)):
                raise (yield from _timed_out(asking, answer.holder, answer.left))
            yield from _look_later(asking, answer.look or 0.0)
        case QueueIsFull():
            raise QueueFull.at(asking.question.claim.name, answer.waiting, asking.question.max_waiters)
        case LinkDown() | ServerSaid():
            yield from _pause(asking, answer)
        case Late() | Withdrawn() | Grant():
            asking.answered = True
            asking.failures += 1
            if asking.failures > 20 and asking.clock() >= asking.started + asking.connect_timeout:
                raise asking.unavailable(CLOCKS_DISAGREE)


def _stand_in_line(asking: Asking, queued: Queued) -> Generator[Wish, Any, None]:
    due = asking.clock() + queued.look
    watch = asking.watch
    touch: Callable[[bytes], bytes] = lambda inbox: asking.question.touch_request(asking.owner, inbox)  # noqa: E731
    while True:
        until = min(due, asking.wait_until)
        watch_at = watch.due if watch is not None else float("inf")
        try:
            bell = yield Park(asking.rung_as, min(until, watch_at, asking.doubt_at), touch)
        except LinkDown:
            return  # the inbox is gone: ask again on a new connection
        now = asking.clock()
        if now >= asking.wait_until and asking.stays:
            return  # one more attempt renews the place, and says where we are
        if now >= asking.wait_until and not (bell and bell.look is None):
            raise (yield from _timed_out(asking, queued.holder, queued.left))
        if bell is not None and bell.look is not None:
            due = min(due, now + bell.look)
        elif bell is None and asking.doubt is not None and asking.doubt_at < min(until, watch_at):
            asking.doubt_at = float("inf")
            asking.doubt(queued.holder)
        elif bell is None and watch is not None and watch_at < until:
            try:
                due = min(due, (yield from watch.run(touch, asking.wait_until)))
            except LinkDown:
                return
        else:
            return


def _look_later(asking: Asking, look: float) -> Generator[Wish, Any, None]:
    asking.answered = True
    asking.failures = 0
    with suppress(LinkDown):  # the next attempt goes out on a new connection
        yield Park(asking.owner, min(asking.clock() + look, asking.wait_until))


def _pause(asking: Asking, failure: LinkDown | ServerSaid) -> Generator[Wish, Any, None]:
    if isinstance(failure, ServerSaid) and not asking.question.is_passing(failure):
        raise asking.question.meaning(failure)
    if isinstance(failure, TooFewAcks) and not asking.undone:
        # Not again by the same owner: a late undo would take away what it was granted meanwhile.
        raise asking.unavailable(f"{failure.cause}, and it did not take the grant back in time") from failure
    asking.failures += 1
    if isinstance(failure, LinkDown) and failure.stale and asking.failures == 1:
        return
    asking.answered = asking.answered or (isinstance(failure, NoQuorum) and failure.answered)
    limit = asking.wait_until
    if not asking.answered:
        limit = min(limit, asking.started + asking.connect_timeout)
    now = asking.clock()
    if now >= limit:
        raise asking.unavailable(failure) from failure
    with suppress(LinkDown):
        yield Park(asking.rung_as, min(limit, now + asking.retry.pause(asking.failures)))


def _timed_out(asking: Asking, holder: Owner | None, left: float) -> Generator[Wish, Any, LockError]:
    """Returns the error to raise, with what can be found out about the holder."""
    waited = asking.clock() - asking.started
    heard = yield from _undo(asking)
    if not heard:
        return asking.unavailable("it did not answer when the wait ended")
    who: Holder | None = None
    if holder is not None and asking.poll is not None:
        who = Holder(owner_text(holder), expires_in=left)
    elif holder is not None:
        with suppress(LinkDown, ServerSaid):
            who = yield asking.question.holder_step(holder, left)
    own = asking.own(holder) if asking.own is not None else None
    return LockTimeout.after(asking.question.claim.name, waited, who, asking.position, own)


def _undo(asking: Asking) -> Generator[Wish, Any, bool]:
    """Leaves the line, or passes a grant that has just come to the next waiter. False if the server did not answer.

    On the connection of the attempt the server sees both in order. On another one, a marker goes along that
    makes the server refuse the attempt should it still arrive.
    """
    if asking.keeps:
        return True
    if asking.poll is not None:
        return (yield from asking.poll.undo())
    marker = max(asking.marker, asking.pending)
    if not (asking.in_line or marker):
        return True
    marked = asking.question.withdraw_step(asking.owner, marker=marker)
    own = asking.question.withdraw_step(asking.owner, marker=asking.marker, otherwise=marked)
    asking.in_line, asking.marker, asking.pending = False, 0, 0
    asking.undone = False
    try:
        with suppress(LinkDown, ServerSaid):  # the ttl ends a grant, and a missing heartbeat a place in line
            asking.undone = (yield own) is not None
    finally:
        if asking.watch is not None:
            yield from asking.watch.retract()
    return asking.undone
