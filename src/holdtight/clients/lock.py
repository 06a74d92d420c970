"""The base class of lock objects, blocking and asyncio: everything that neither blocks nor awaits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdtight.base import process, refusals
from holdtight.base.callbacks import get_logger
from holdtight.base.identity import Identity, current_work, may_block
from holdtight.base.plan import Plan, ServerSaid
from holdtight.base.public import PublicLock
from holdtight.base.values import Grant, Holder, Kind, LossReason, Owner, Wait, owner_text
from holdtight.clients.terms import LockTerms
from holdtight.config.settings import Options
from holdtight.core.contend import Answer, Asking
from holdtight.core.ending import downgrade
from holdtight.errors import DeadlockDetected, LeaseLost, LockError, LockTimeout, Unavailable
from holdtight.grants.lease import BaseLease
from holdtight.grants.tenure import Deliver, Tenure
from holdtight.keeper.charges import DeferredUndo, look_after
from holdtight.stores.boundary import Prepared

if TYPE_CHECKING:
    from holdtight.clients.client import BaseLocks
    from holdtight.core.deadlock import Watch

__all__ = ["BaseLock", "restore_lock"]

B = TypeVar("B", bound="BaseLock")


class BaseLock(PublicLock):
    """One lock's configuration. Immutable, safe to share, holds no grant."""

    __slots__ = ("_locks", "_name", "key", "prepared", "terms")

    def __init__(self, locks: "BaseLocks[Any]", name: str, terms: LockTerms) -> None:
        self._locks: Any = locks
        self._name = name
        self.terms = terms
        self.prepared: Prepared = terms.shape.prepare(name)
        self.key = (locks, name)

    @property
    def options(self) -> Options:
        return self.terms.options

    @property
    def name(self) -> str:
        """The name that the lock was made with."""
        return self._name

    @property
    def client(self) -> Any:
        return self._locks

    def asking_for(self: B, n: object) -> B:
        """For a semaphore: the same lock object with another number of permits."""
        if n == self.options.n and n.__class__ is int:
            return self
        return cast(B, self._locks.keep_sibling(self, self.options.asking_for(n)))

    def reading(self: B) -> B:
        """A lock object of the same name for reading."""
        return cast(B, self._locks.keep_sibling(self, self.options._replace(kind=Kind.SHARED)))

    def see_to(self, lease: BaseLease, who: Identity) -> None:
        """Handles the rare options: `max_hold` and `reentrant`."""
        tenure = lease.tenure
        if tenure.hold_until is not None:
            tenure.place.runtime.keeper.add(tenure, tenure.since)
        if self.options.reentrant:
            lease.share(who)

    def report_detached(self, tenure: Tenure) -> None:
        self._locks.report_detached(tenure)

    def report_downgraded(self, tenure: Tenure, reading: Tenure) -> None:
        self._locks.report_downgraded(tenure, reading)

    def let_go(self, tenure: Tenure) -> None:
        """Ends the tenure here and leaves its release to the keeper: the caller does not wait for an answer."""
        place = self._locks.place
        place.runtime.keeper.drop(tenure)
        tenure.lost()
        tenure.ended = True
        if tenure.reason is LossReason.FORKED:
            return
        step = self.prepared.withdraw_step(tenure.owner, marker=self._locks.marker_of(tenure))
        place.runtime.keeper.ask(DeferredUndo(place, step, tenure.ttl))
        self.handed_on(tenure)

    def call_off(self, owner: Owner | None, error: BaseException) -> None:
        """Withdraws an owner after an interrupt in an acquisition or a release, by the keeper: the code that was
        interrupted cannot know what the server has granted. Errors of ours come after an undo of their own."""
        if owner is not None and not isinstance(error, LockError) and not self._locks.closed:
            place = self._locks.place
            place.runtime.keeper.ask(DeferredUndo(place, self.prepared.withdraw_step(owner)))
            look_after(place, self.prepared, owner, place.clock())

    def handed_on(self, tenure: Tenure) -> None:
        """The release may have passed the lock to a waiter: the keeper checks later that this waiter confirms."""
        place = self._locks.place
        look_after(place, self.prepared, tenure.owner, place.clock())

    def downgrading(self, reading: "BaseLock", tenure: Tenure) -> Plan[Grant]:
        """Sends a marker along if a request of the writer may still arrive: the server then refuses that request."""
        if tenure.ordinal:
            tenure.ordinal += 1
        locks: BaseLocks[Any] = self._locks
        marker = locks.store.marker_text(tenure.ordinal, locks.marker_of(tenure))
        place = locks.place
        return downgrade(reading.prepared, tenure.owner, clock=place.clock, marker=marker, acks=place.acks)

    def new_tenure(self, deliver: Deliver, owner: Owner, fence: int, sent: float, marker: int, acks: int) -> Tenure:
        if not acks:
            return Tenure(self.terms, self.prepared, deliver, owner, fence, sent, marker)
        from holdtight.grants.acked_tenure import AckedTenure

        tenure = AckedTenure(self.terms, self.prepared, deliver, owner, fence, sent, marker)
        tenure.acks = acks
        return tenure

    def not_downgraded(self, tenure: Tenure, error: BaseException) -> None:
        """A refusal changes nothing. After any other error readers may already be in, so the writer's lease is lost."""
        if isinstance(error, LockError) and not isinstance(error, (Unavailable, LeaseLost)):
            tenure.waiting = False
            tenure.place.runtime.keeper.ask(tenure)
        else:
            reason = error.reason if isinstance(error, LeaseLost) else None
            tenure.lose(reason or LossReason.UNREACHABLE)

    def _understood(self, reply: Any, sent: float) -> Answer | None:
        """Returns None if the server lacks the script: nothing has run, so the plan starts afresh."""
        if isinstance(reply, Exception):
            return None if self._locks.store.has_not_run(reply) else ServerSaid(str(reply))
        answer: Answer = self._locks.store.read_attempt(reply, sent)
        return answer

    def asking(
        self, owner: Owner, wait: float | None, started: float, who: Identity | None = None, *, or_none: bool
    ) -> Asking:
        """Describes one acquisition. `who` is the identity that waits, for deadlock detection."""
        locks = self._locks
        asking = Asking(
            question=self.prepared,
            owner=owner,
            server=locks.place.display,
            started=started,
            wait=wait,
            connect_timeout=locks.settings.connect_timeout,
            retry=locks.settings.retry,
            clock=locks.place.clock,
            or_none=or_none,
            watch=self._watch(owner, started, who) if wait != 0 and who is not None and may_block(who) else None,
            check_open=locks.check_open,
        )
        asking.acks = locks.place.acks
        if who is not None:
            who.asks = owner
            self.doubt_oneself(asking, who)
        if locks.events.active:
            locks.expect_wait(self, asking)
        return asking

    def doubt_oneself(self, asking: Asking, who: Identity) -> None:
        """Handles a caller that holds this name through `acquire()` and asks for it again.

        Another thread or task may still release that lease, so this is no deadlock: a log line after `deadlock_after`
        and the LockTimeout mention it. One check is enough: the caller cannot take another lease while it waits.
        """
        locks: BaseLocks[Any] = self._locks
        tenure = locks.taken_by(self._name, who)
        if tenure is None or not self.is_kept_out_by([tenure]):
            return

        def own(holder: Owner | None) -> str | None:
            if not tenure.alive or (tenure.kind is Kind.EXCLUSIVE and holder not in (None, tenure.owner)):
                return None
            held = tenure.place.clock() - tenure.since
            return f"this very {who.what}, which took it {held:.3g} s ago with acquire() and has not released it"

        def doubt(holder: Owner | None) -> None:
            said = own(holder)
            if said is not None:
                get_logger().warning(
                    "lock %r: held by %s. It waits for itself, for ever if nobody else releases that lease or limits "
                    "this wait",
                    self._name,
                    said,
                )

        asking.own, asking.doubt, asking.doubt_at = own, doubt, asking.started + locks.settings.deadlock_after

    def is_kept_out_by(self, held: Sequence[Tenure]) -> bool:
        """Whether these grants of this name block this claim on their own, whatever other holders do."""
        asked = self.options
        if asked.kind is Kind.PERMITS:
            taken = sum(each.prepared.claim.n for each in held if each.kind is Kind.PERMITS)
            return taken + asked.n > asked.permits
        alone = asked.kind is Kind.EXCLUSIVE
        return any(each.kind is Kind.EXCLUSIVE or (alone and each.kind is Kind.SHARED) for each in held)

    def _watch(self, owner: Owner, started: float, who: Identity) -> "Watch":
        from holdtight.core.deadlock import Watch  # lazy; see clients/loading.py

        locks: BaseLocks[Any] = self._locks
        namespace, epoch = locks.settings.namespace, process.current.epoch
        own, work = list(who.stack), current_work.get()

        def held() -> list[Owner]:
            waiting: list[Any] = [] if work is None else work.blocks()
            blocks = [
                lease.tenure
                for (client, _), lease in (*waiting, *own)
                if cast(Any, client).settings.namespace == namespace
            ]
            found = (each.owner for each in blocks if each.alive and each.epoch == epoch)
            return list(dict.fromkeys(found))  # a grant that is entered twice counts once

        return Watch(
            locks.waits,
            Wait(owner, self._name, who.display(), self.options.label),
            held,
            started=started,
            after=locks.settings.deadlock_after,
            clock=locks.place.clock,
            tally=locks.deadlocks,
        )

    def entered_by(self, who: Identity, wait: float | None = None) -> Tenure | None:
        """The tenure to share if this identity holds the lock and may enter it again; None if it must ask the server.

        A reader may enter its own write grant and shares it. The reverse would wait for itself and raises NotSupported.
        If the lock is not reentrant, raises DeadlockDetected, or LockTimeout where the caller does not wait (`wait=0`).
        Raises LeaseLost if the held lease is lost.
        """
        if self.options.kind is Kind.PERMITS:
            self._not_more_than_there_are(who, wait)
            return None
        in_block = next((lease.tenure for key, lease in reversed(who.stack) if key == self.key), None)
        tenure: Tenure | None = (who.grants.get(self.key) if self.options.reentrant else None) or in_block
        if tenure is None or tenure.ended or not tenure.entered or tenure.epoch != process.current.epoch:
            return None  # inherited through a fork, or (being) released
        if tenure.kind is Kind.PERMITS:
            return None  # the server refuses this and explains why
        if self.options.kind is Kind.EXCLUSIVE and tenure.kind is Kind.SHARED:
            raise self._refused(refusals.upgrade(self._name, who.what), wait)
        if not self.options.reentrant:
            raise self._refused(self._held_by(who, tenure, wait), wait)
        if tenure.lost():
            raise self._refused(LeaseLost.because(tenure.name, tenure.reason, tenure.fence), wait)
        return tenure

    def _not_more_than_there_are(self, who: Identity, wait: float | None) -> None:
        """Raises as `entered_by` if the permits that this identity already holds make the request unsatisfiable."""
        ours = [lease.tenure for key, lease in who.stack if key == self.key]
        held = [each for each in ours if each.kind is Kind.PERMITS and each.alive]
        if sum(each.prepared.claim.n for each in held) + self.options.n > self.options.permits:
            raise self._refused(self._held_by(who, held[-1], wait), wait)

    def _refused(self, error: LockError, wait: float | None) -> LockError:
        """Reports an acquisition that ends before anything was sent."""
        self._locks.report_failed(self.terms, self._name, "", self.terms.clock(), wait, error)
        return error

    def _held_by(self, who: Identity, tenure: Tenure, wait: float | None) -> LockError:
        """The error for a caller that holds the lock itself, in a block."""
        if wait != 0:
            return DeadlockDetected.with_self(self._name, who.what)
        claim, left = tenure.prepared.claim, tenure.remaining()
        fence = None if tenure.stand_in is not None else tenure.fence
        holder = Holder(owner_text(tenure.owner), fence, label=claim.label, expires_in=left, kind=claim.kind, n=claim.n)
        return LockTimeout.after(self._name, 0.0, holder, 0, f"this very {who.what}, in a block around this call")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} ttl={self.options.ttl:g}>"

    def __reduce__(self) -> tuple[object, ...]:
        return restore_lock, (type(self), self._locks, self._name, self.options)


def restore_lock(cls: Any, locks: "BaseLocks[Any]", name: str, options: Options) -> Any:
    return cls(locks, name, locks.terms_of(options))
