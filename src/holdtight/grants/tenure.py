"""The process-side state of one grant: what a user's leases point to and what the keeper renews.

A user holds a *Lease*; all handles of one grant (re-entry gives more than one) share one Tenure. The keeper
knows tenures only, so that a lease which nobody references any more can be noticed.

# Invariants:
# - `reason` is set once and never changes; whoever sets it delivers the news, once;
# - after `ended` no loss is delivered and nothing is renewed;
# - `deadline` counts from before the request that the server answered, less drift. Passing it is loss,
#   whatever the network says, and every look at `lost` reads the clock itself;
# - `deadline` is never later than what the server keeps, whatever arrives late: a renewal gives time, and takes none
#   away, unless it carries an ordinal. Before such a one leaves, the deadline is lowered to what it would leave, and
#   every later renewal carries a higher ordinal, so that the server refuses it from then on.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol

from holdtight.base import process
from holdtight.base.event_bus import Events
from holdtight.base.values import Kind, LossReason, Owner, Verdict, owner_text, shared
from holdtight.core.renewal import next_ttl
from holdtight.stores.boundary import Place
from holdtight.stores.redis.store import Prepared
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["Tenure", "Terms"]

_SAME_MOMENT = 0.005

_deciding = threading.RLock()  # re-entrant: a signal handler may look as well


def _after_fork() -> None:
    global _deciding
    _deciding = threading.RLock()


process.on_fork(_after_fork)

Deliver = Callable[..., object]


class Terms:
    """What all grants of one lock object have in common."""

    __slots__ = ("events", "interval", "max_hold", "place", "prepared", "renew", "ttl", "valid")

    def __init__(
        self, prepared: Prepared, place: Place, events: Events, *, renew: bool, max_hold: float | None
    ) -> None:
        self.prepared = prepared
        self.place = place
        self.events = events
        self.renew = renew
        self.max_hold = max_hold
        self.ttl = prepared.claim.ttl
        self.valid = prepared.valid
        self.interval = shared(self.ttl / 3) if renew else self.valid


class Cancellable(Protocol):
    lease: Any

    @property
    def stranded(self) -> bool:
        """Its event loop was closed: nobody will ever leave it."""
        ...

    def lease_lost(self) -> None: ...


class Tenure:
    # What is the same for almost every grant is left to the class: making a tenure is on the hot path. It is set only
    # to something else, also while it is renewed: one more attribute costs a tenure more than twice its size.
    entered = 1
    marker = 0
    """Until when (server's ms) an unanswered attempt of this owner may still arrive; 0 for none."""
    reason: LossReason | None = None
    ended = False
    doubt: str | None = None
    """Why the last renewal ended Unknown, if it did."""
    block: "Cancellable | None" = None
    """The `async with` block whose body is to be cancelled; set without a lock by its own loop, which then looks
    whether the loss came first."""
    hold_until: float | None = None
    stand_in: Any = None
    """The lock that gives it back, of a lease that was taken without the server; see clients/degraded.py."""
    waiting = False
    """Somebody waits for a renewal with terms of its own: ours would undo it if it came later."""
    _asked = 0.0
    """The ttl that the renewal under way asks for, if it is not that of the terms: `renew(ttl)` may change ours
    meanwhile."""
    ordinal = 0
    """Of the last renewal, counted from the first on that may take time away; 0 before that."""
    shortened: tuple[float, float] | None = None
    """When a renewal left that takes time away and is not answered yet, and the deadline that it may have left."""
    _hooks: list[Callable[[], object]] | None = None

    def __init__(self, terms: Terms, deliver: Deliver, owner: Owner, fence: int, sent: float, marker: int) -> None:
        self.terms = terms
        self.place = terms.place
        self.deliver = deliver
        self.owner = owner
        self.fence = fence
        self.since = sent
        self.ttl = terms.ttl
        self.interval = terms.interval
        self.deadline = sent + terms.valid
        self.epoch = process.current.epoch
        # Read again by the end of every block: Python is quicker to find them here than in the class.
        self.entered = 1
        self.reason = None
        self.ended = False
        self.marker = marker
        if terms.max_hold is not None:
            self.hold_until = sent + terms.max_hold
            self.deadline = min(self.deadline, self.hold_until)
            if terms.max_hold < terms.ttl:
                self.ordinal = 1  # the first renewal lowers what the grant has given

    def stand_in_by(self, lock: Any) -> None:
        """`lock` has given this grant in place of the server; it, and nobody else, takes it back."""
        self.stand_in = lock
        self.marker = self.marker or 1  # one that was long ago: the end of a block takes the careful way

    @property
    def name(self) -> str:
        return self.terms.prepared.claim.name

    @property
    def nodes(self) -> tuple[str, ...]:
        """The servers that have it."""
        return (self.place.display,)

    @property
    def kind(self) -> Kind:
        return self.terms.prepared.claim.kind

    # What a lease shows.

    def remaining(self) -> float:
        if self.reason is not None or self.ended or self.epoch != process.current.epoch:
            return 0.0
        return max(0.0, self.deadline - self.place.clock())

    def lost(self) -> bool:
        if self.reason is not None:
            return True
        if self.ended:
            return False
        if self.epoch != process.current.epoch:
            self.reason = LossReason.FORKED
            return True
        if self.place.clock() >= self.deadline:
            self.lose(self._overdue())
            return True
        return False

    def _overdue(self) -> LossReason:
        if self.hold_until is not None and self.deadline >= self.hold_until - _SAME_MOMENT:
            return LossReason.MAX_HOLD
        return LossReason.UNREACHABLE if self.doubt else LossReason.EXPIRED

    def lose(self, reason: LossReason) -> None:
        with _deciding:
            if self.reason is not None or self.ended:
                return
            self.reason = reason
            hooks, self._hooks = self._hooks, None
        from holdtight.events import Lost

        self.terms.events.emit_later(Lost(self.name, owner_text(self.owner), self.fence, reason))
        block = self.block  # its own loop may take it away meanwhile
        if block is not None:
            self.deliver(block.lease_lost)
        for hook in hooks or ():
            self.deliver(hook)

    def on_loss(self, hook: Callable[[], object]) -> bool:
        """`hook` is delivered when the lease is lost, at once if it is lost already."""
        with _deciding:
            if self.reason is None and not self.ended:
                if self._hooks is None:
                    self._hooks = []
                self._hooks.append(hook)
                return True
        if self.reason is not None:
            self.deliver(hook)
        return False

    def drop_hook(self, hook: Callable[[], object]) -> None:
        with _deciding:
            if self._hooks is not None and hook in self._hooks:
                self._hooks.remove(hook)

    # What the keeper asks (see keeper.Charge).

    @property
    def alive(self) -> bool:
        """Somebody has it in hand, and it is not lost. What was let go, even if only just, is renewed no more."""
        return self.entered > 0 and not self.ended and self.reason is None

    def request(self, now: float) -> bytes | None:
        """The next renewal; None if there is nothing to ask and only the deadline counts."""
        terms = self.terms
        left = self.deadline - now
        if not terms.renew or not self.alive or self.waiting or left <= 0:
            return None
        block = self.block  # its own loop may take it away meanwhile
        if block is not None and block.stranded:
            return None
        asked = self.ttl
        if self.hold_until is not None:
            asked = next_ttl(asked, now, self.hold_until, terms.prepared.store.drift)
        if asked != terms.ttl or self._asked:
            self._asked = asked
        patience = left if left < LONGEST_PATIENCE else LONGEST_PATIENCE
        if self.ordinal:
            return self.set_request(now, asked, patience)
        return terms.prepared.renew_request(self.owner, now, asked, patience)

    def set_request(self, now: float, ttl: float, patience: float) -> bytes:
        self.ordinal += 1
        return self.terms.prepared.set_request(self.owner, now, ttl, patience, self.ordinal, self.marker)

    def answered(self, reply: Any, sent: float) -> bool:
        """True if the charge goes on as usual, False if it is over or must be asked again soon."""
        verdict = self.terms.prepared.read_renewal(reply, sent)
        if verdict is Verdict.RENEWED:
            self.renewed(sent, self._asked or self.terms.ttl)
            return True
        if isinstance(verdict, LossReason):
            self.lose(verdict)
        else:
            self.unanswered(str(reply))
        return False

    def renewed(self, sent: float, ttl: float) -> None:
        terms = self.terms
        deadline = sent + (terms.valid if ttl == terms.ttl else terms.prepared.store.drift.valid(ttl))
        if self.shortened is not None:
            left, bound = self.shortened
            if sent > left:
                self.shortened = None  # the server refuses the other from now on
            else:
                deadline = min(deadline, bound)
        self.deadline = deadline if self.hold_until is None else min(deadline, self.hold_until)
        if self.doubt is not None:
            self.doubt = None
        if terms.events.loud:
            from holdtight.events import Renewed

            event = Renewed(self.name, owner_text(self.owner), self.fence, self.remaining())
            self.terms.events.emit_later(event)

    def unanswered(self, cause: str) -> None:
        from holdtight.events import RenewalFailed

        self.doubt = cause
        event = RenewalFailed(self.name, owner_text(self.owner), self.fence, self.remaining(), cause)
        self.terms.events.emit_later(event)

    def overdue(self) -> None:
        self.lost()

    def late(self, by: float) -> None:
        if self.terms.renew:
            self.terms.events.tell_late(by, self.place.clock(), self.ttl)
