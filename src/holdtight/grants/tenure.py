"""The process-side state of one grant: leases refer to it and the keeper renews it.

A user holds a *Lease*; all handles of one grant (re-entry gives more than one) share one Tenure. The keeper
knows tenures only, so that a lease which is no longer referenced can be noticed.

Invariants:
- `reason` is set once and never changes; the code that sets it reports the loss, once;
- after `ended` no loss is reported and nothing is renewed;
- `deadline` counts from before the request that the server answered, less drift. Passing it is loss,
  whatever the network says, and every call of `lost` reads the clock itself;
- `deadline` is never later than what the server keeps, whatever arrives late: a renewal only extends the time, unless
  it carries an ordinal. Before such a renewal is sent, the deadline is lowered to what it would leave. Every later
  renewal carries a higher ordinal. Once one has arrived, the server refuses the earlier ones; on a cluster, only those
  that carry an ordinal (decision 0024).
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from holdtight.base import process
from holdtight.base.clock import Drift
from holdtight.base.event_bus import Events
from holdtight.base.records import LOST, RENEWAL_FAILED, RENEWED
from holdtight.base.values import Kind, LossReason, Owner, Verdict, owner_text, shared
from holdtight.core.renewal import next_ttl
from holdtight.stores.boundary import Place, Prepared, Shape
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.events import Event

__all__ = ["Tenure", "Terms"]

_SAME_MOMENT = 0.005
_TTLS_UNTIL_WARNED = 10

_deciding = threading.RLock()  # re-entrant: a signal handler may check a lease as well


def _after_fork() -> None:
    global _deciding
    _deciding = threading.RLock()


process.on_fork(_after_fork)

Deliver = Callable[..., object]


class Terms:
    """What all grants of locks with the same options have in common."""

    __slots__ = (
        "drift",
        "events",
        "interval",
        "kind",
        "max_hold",
        "place",
        "renew",
        "shape",
        "template",
        "ttl",
        "valid",
        "warn_after",
    )

    def __init__(
        self,
        shape: Shape,
        place: Place,
        events: Events,
        *,
        renew: bool,
        max_hold: float | None,
        warn_after: float | None = None,
        template: str | None = None,
    ) -> None:
        self.shape = shape
        self.place = place
        self.events = events
        self.renew = renew
        self.max_hold = max_hold
        self.template = template
        self.ttl = shape.claim.ttl
        self.kind = shape.claim.kind
        self.valid = shape.valid
        self.drift: Drift = place.store.drift
        self.interval = shared(self.ttl / 3) if renew else self.valid
        self.warn_after = shared(self.ttl * _TTLS_UNTIL_WARNED) if warn_after is None else warn_after
        """Seconds after which a grant that is still renewed emits HeldLong, once."""


class Cancellable(Protocol):
    lease: Any

    @property
    def stranded(self) -> bool:
        """Its event loop was closed: no code will ever leave the block."""
        ...

    def tell_lost(self) -> None:
        """Called in any thread: cancels the body soon, on the body's own loop."""
        ...


class Tenure:
    # Defaults that fit almost every grant are class attributes: creating a tenure is on the hot path. An instance sets
    # an attribute only if its value differs: the first such attribute more than doubles the size of a tenure.
    entered = 1
    marker = 0
    """The latest moment (server's ms) at which an unanswered attempt of this owner may arrive; 0 for none."""
    reason: LossReason | None = None
    ended = False
    doubt: str | None = None
    """Why the last renewal was Unknown, if it was."""
    block: "Cancellable | None" = None
    """The `async with` block whose body a loss cancels. Its own loop sets it without a lock, then checks whether the
    loss came first."""
    hold_until: float | None = None
    stand_in: Any = None
    """The lock that takes back a lease which was given without the server; see clients/degraded.py."""
    waiting = False
    """A caller waits for a renewal with its own ttl: a regular renewal that arrived later would undo it."""
    _asked = 0.0
    """The ttl that the renewal in flight asks for, if it differs from the terms: `renew(ttl)` may change `ttl`
    meanwhile."""
    ordinal = 0
    """The number of the last renewal, counted from the first one that may shorten the time; 0 before that."""
    shortened: tuple[float, float] | None = None
    """When an unanswered renewal that shortens the time was sent, and the deadline that it may have set."""
    acks = 0
    """How many replicas have acknowledged the grant, or its last renewal."""
    told_held_long = False
    _hooks: list[Callable[[], object]] | None = None

    def __init__(
        self, terms: Terms, prepared: Prepared, deliver: Deliver, owner: Owner, fence: int, sent: float, marker: int
    ) -> None:
        self.terms = terms
        self.prepared = prepared
        self.deliver = deliver
        self.owner = owner
        self.fence = fence
        self.since = sent
        self.ttl = terms.ttl
        self.interval = terms.interval
        self.deadline = sent + terms.valid
        self.epoch = process.current.epoch
        # The end of every block reads these: Python finds them faster on the instance than on the class.
        self.entered = 1
        self.reason = None
        self.ended = False
        self.marker = marker
        if terms.max_hold is not None:
            self.hold_until = sent + terms.max_hold
            self.deadline = min(self.deadline, self.hold_until)
            if terms.max_hold < terms.ttl:
                self.ordinal = 1  # the first renewal shortens the time that the grant gave

    def stand_in_by(self, lock: Any) -> None:
        """`lock` gave this grant in place of the server, and only `lock` takes it back."""
        self.stand_in = lock
        self.marker = self.marker or 1  # a moment long past: makes the end of a block take the slow path

    @property
    def name(self) -> str:
        return self.prepared.name

    @property
    def place(self) -> Place:
        return self.terms.place

    @property
    def nodes(self) -> tuple[str, ...]:
        """The servers that hold it."""
        return (self.place.of(self).server,)

    @property
    def home(self) -> int | None:
        """The slot, on a cluster."""
        return self.prepared.home

    @property
    def kind(self) -> Kind:
        return self.terms.kind

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
        self._tell_lost(reason)
        block = self.block  # its own loop may reset it meanwhile
        if block is not None:
            block.tell_lost()
        for hook in hooks or ():
            self.deliver(hook)

    def lost_at_release(self, reason: LossReason) -> None:
        """Only the release finds out, from the server, that the lease was lost before."""
        self.reason = reason
        self._tell_lost(reason)

    def _tell_lost(self, reason: LossReason) -> None:
        from holdtight.events import Lost

        events, now = self.terms.events, self.place.clock()
        if events.record is not None:
            events.record((LOST, self, now, reason))
        events.emit_later(self._event(Lost, reason, now - self.since))

    def _event(self, kind: "Callable[..., Event]", *fields: object) -> "Event":
        """An event about this grant."""
        terms = self.terms
        return kind(self.name, owner_text(self.owner), self.fence, *fields, kind=terms.kind, template=terms.template)

    def on_loss(self, hook: Callable[[], object]) -> bool:
        """Delivers `hook` when the lease is lost, at once if it is lost already. False if it is lost or ended."""
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

    # The interface for the keeper (see keeper.Charge).

    @property
    def alive(self) -> bool:
        """The user still has it, and it is not lost. A tenure that was let go, even just now, is no longer renewed."""
        return self.entered > 0 and not self.ended and self.reason is None

    def request(self, now: float) -> bytes | None:
        """Returns the next renewal; None if there is nothing to send and only the deadline counts."""
        terms = self.terms
        left = self.deadline - now
        if not terms.renew or not self.alive or self.waiting or left <= 0:
            return None
        block = self.block  # its own loop may reset it meanwhile
        if block is not None and block.stranded:
            return None
        asked = self.ttl
        if self.hold_until is not None:
            asked = next_ttl(asked, now, self.hold_until, terms.drift)
        if asked != terms.ttl or self._asked:
            self._asked = asked
        patience = left if left < LONGEST_PATIENCE else LONGEST_PATIENCE
        if self.ordinal:
            return self.set_request(now, asked, patience)
        return self.prepared.renew_request(self.owner, now, asked, patience)

    def set_request(self, now: float, ttl: float, patience: float) -> bytes:
        self.ordinal += 1
        return self.prepared.set_request(self.owner, now, ttl, patience, self.ordinal, self.marker)

    def answered(self, reply: Any, sent: float) -> bool | None:
        """True if the charge continues as usual, False if it is over or must be sent again soon."""
        verdict = self.prepared.read_renewal(reply, sent)
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
        deadline = sent + (terms.valid if ttl == terms.ttl else terms.drift.valid(ttl))
        if self.shortened is not None:
            left, bound = self.shortened
            if sent > left:
                self.shortened = None  # the server refuses the earlier one from now on
            else:
                deadline = min(deadline, bound)
        before = self.deadline
        self.deadline = deadline if self.hold_until is None else min(deadline, self.hold_until)
        if self.doubt is not None:
            self.doubt = None
        if sent - self.since >= terms.warn_after and terms.renew:
            self.tell_held_long()
        if terms.events.active:
            self.tell_renewed(before)

    def tell_renewed(self, before: float) -> None:
        """Reports a renewal; `before` is the deadline that the lease had until then."""
        events = self.terms.events
        if events.record is not None:
            events.record((RENEWED, self, (before - self.place.clock()) / self.ttl))
        if events.loud:
            from holdtight.events import Renewed

            events.emit_later(self._event(Renewed, self.remaining()))

    def tell_held_long(self) -> None:
        if self.told_held_long:
            return
        self.told_held_long = True
        from holdtight.events import HeldLong

        self.terms.events.emit_later(self._event(HeldLong, self.place.clock() - self.since))

    def unanswered(self, cause: str) -> None:
        if self.ended:
            return  # released while the renewal was under way
        from holdtight.events import RenewalFailed

        self.doubt = cause
        events = self.terms.events
        if events.record is not None:
            events.record((RENEWAL_FAILED, self, self.place.clock(), cause))
        events.emit_later(self._event(RenewalFailed, self.remaining(), cause))

    def overdue(self) -> None:
        self.lost()

    def late(self, by: float) -> None:
        if self.terms.renew:
            self.terms.events.tell_late(by, self.place.clock(), self.ttl)
