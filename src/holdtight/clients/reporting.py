"""Reports what happens to a client's locks, from the thread in which it happens: as events, and as records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdtight.base.records import DEGRADED, ENDED, EXPIRED, FAILED, GRANTED, RELEASE_FAILED
from holdtight.base.values import Kind, owner_text
from holdtight.errors import DeadlockDetected, LockTimeout, quotable

if TYPE_CHECKING:
    from holdtight.base.event_bus import Events
    from holdtight.base.plan import LinkDown, ServerSaid
    from holdtight.base.values import Grant, Owner, Queued
    from holdtight.core.contend import Asking
    from holdtight.errors import LockError
    from holdtight.grants.tenure import Tenure, Terms
    from holdtight.stores.boundary import Place, Prepared

__all__ = ["Reports"]

_REASONS = {
    "LOCK_TIMEOUT": "timeout",
    "CONNECTION_LOST": "unavailable",
    "QUORUM_NOT_REACHED": "unavailable",
    "QUEUE_FULL": "queue_full",
    "DEADLOCK": "deadlock",
    "NOT_PERMITTED": "not_permitted",
    "OUT_OF_MEMORY": "out_of_memory",
    "CLOCK_DRIFT": "clock_drift",
}


class Reports:
    """The part of a client that emits events and records."""

    events: Events
    place: Place

    def meaning(self, error: LinkDown | ServerSaid, name: str | None) -> LockError:
        raise NotImplementedError

    # Acquiring.

    def expect_wait(self, lock: Any, asking: Asking) -> None:
        """Has the wait loop tell of the place in line."""
        asking.tell_queued = partial(self._report_queued, lock, asking)

    def _report_queued(self, lock: Any, asking: Asking, queued: Queued) -> None:
        events = self.events
        if events.record is not None:
            events.waiting[asking.owner] = lock
        if events.loud:
            from holdtight import events as kinds

            holder = owner_text(queued.holder) if queued.holder else None
            events.emit(kinds.Queued(*_about(asking), queued.position, holder, **_of(lock.terms)))

    def report_quick_grant(self, tenure: Tenure, started: float | None = None) -> None:
        """Reports a grant that took no wait in line. Without `started`, the caller has recorded it."""
        events = self.events
        if events.record is not None and started is not None:
            events.record((GRANTED, tenure, started, self.place.clock(), False))
        if events.loud:
            from holdtight.events import Acquired

            events.emit(Acquired(tenure.name, owner_text(tenure.owner), tenure.fence, 0.0, **_of(tenure.terms)))

    def report_grant(self, tenure: Tenure, asking: Asking, grant: Grant) -> None:
        events = self.events
        if events.record is not None:
            events.waiting.pop(asking.owner, None)
            events.record((GRANTED, tenure, asking.started, self.place.clock(), asking.queued))
            if grant.expired is not None:
                events.record((EXPIRED, tenure))
        if grant.expired is None and not events.loud:
            return
        from holdtight.events import Acquired, PreviousExpired, Waited

        name, owner, of = tenure.name, owner_text(tenure.owner), _of(tenure.terms)
        if grant.expired is not None:
            events.emit(PreviousExpired(name, owner, owner_text(grant.expired), **of))
        if events.wanted:
            waited = max(0.0, grant.sent - asking.started)
            if asking.queued:
                events.emit(Waited(name, owner, waited, True, **of))
            events.emit(Acquired(name, owner, grant.fence, waited, **of))

    def report_turn(self, tenure: Tenure, started: float) -> None:
        """Another thread or task of this client has handed the lock on (see clients/cohort.py)."""
        events = self.events
        if events.record is not None:
            events.record((GRANTED, tenure, started, self.place.clock(), True))
        if events.loud:
            from holdtight.events import Acquired, Waited

            owner, waited, of = owner_text(tenure.owner), tenure.since - started, _of(tenure.terms)
            events.emit(Waited(tenure.name, owner, waited, True, **of))
            events.emit(Acquired(tenure.name, owner, tenure.fence, waited, **of))

    def report_failure(
        self, terms: Terms, asking: Asking, error: BaseException | None, *, degrades: bool = False
    ) -> None:
        """Reports the end of a wait without a grant. `error` is None for a caller that gets None. If the client
        `degrades`, the caller may still get a lease."""
        if self.events.record is not None:
            self.events.waiting.pop(asking.owner, None)
        self.events.refresh()
        if not self.events.active and not isinstance(error, DeadlockDetected):
            return
        from holdtight.events import DeadlockFound, TimedOut, Waited

        name, owner = _about(asking)
        of, waited = _of(terms), self.place.clock() - asking.started
        if isinstance(error, DeadlockDetected):
            self.events.emit(DeadlockFound(name, owner, waited, error.cycle, **of))
        if self.events.loud:
            if isinstance(error, LockTimeout):
                holder = error.holder.owner if error.holder else None
                self.events.emit(TimedOut(name, owner, waited, holder, **of))
            if asking.queued:
                self.events.emit(Waited(name, owner, waited, False, **of))
        if not degrades:
            self.report_failed(terms, name, owner, asking.started, asking.wait, error, queued=asking.queued)

    def report_failed(
        self,
        terms: Terms | None,
        name: str,
        owner: str,
        started: float,
        wait: float | None,
        error: BaseException | None,
        *,
        queued: bool = False,
    ) -> None:
        """Reports an acquisition without a lease. A multi-lock has no terms."""
        events = self.events
        events.refresh()
        if not events.active:
            return
        code, reason, now = getattr(error, "code", None), _reason(error, wait), self.place.clock()
        if events.record is not None:
            events.record((FAILED, terms, name, owner, started, now, queued, reason, code))
        if events.loud:
            from holdtight.events import Failed

            of: dict[str, Any] = {"kind": Kind.MULTI} if terms is None else _of(terms)
            events.emit(Failed(name, owner, reason, max(0.0, now - started), **of))

    def report_degraded(self, lock: Any, owner: Owner, how: str, cause: BaseException) -> None:
        from holdtight.events import Degraded

        if self.events.record is not None:
            self.events.record((DEGRADED, lock.terms, lock.name, how))
        self.events.emit(Degraded(lock.name, owner_text(owner), how, quotable(cause), **_of(lock.terms)))

    def report_refresh_failed(self, lock: Any, owner: Owner, error: str) -> None:
        """A flight has failed, and the stale value stays. Without an owner it has not begun to compute."""
        from holdtight.events import RefreshFailed

        self.events.emit(RefreshFailed(lock.name, owner_text(owner) if owner else "", error, **_of(lock.terms)))

    # Ending.

    def report_release(self, tenure: Tenure) -> None:
        """Called only if the events are `active`, for speed."""
        events = self.events
        if events.record is not None:
            events.record((ENDED, tenure, self.place.clock(), "released"))
        if events.loud:
            self.emit_release(tenure)

    def emit_release(self, tenure: Tenure) -> None:
        from holdtight.events import Released

        held, of = self.place.clock() - tenure.since, _of(tenure.terms)
        self.events.emit(Released(tenure.name, owner_text(tenure.owner), tenure.fence, held, **of))

    def report_detached(self, tenure: Tenure) -> None:
        events, now = self.events, self.place.clock()
        if events.record is not None:
            events.record((ENDED, tenure, now, "detached"))
        if events.wanted:
            from holdtight.events import Detached

            held = now - tenure.since
            events.emit(Detached(tenure.name, owner_text(tenure.owner), tenure.fence, held, **_of(tenure.terms)))

    def report_downgraded(self, tenure: Tenure, reading: Tenure) -> None:
        """`tenure` ended as that of a writer, and goes on as `reading`."""
        events, now = self.events, self.place.clock()
        if events.record is not None:
            events.record((ENDED, tenure, now, "downgraded", reading))
        if events.wanted:
            from holdtight.events import Downgraded

            held = now - tenure.since
            events.emit(Downgraded(tenure.name, owner_text(tenure.owner), reading.fence, held, **_of(tenure.terms)))

    def report_no_release(
        self, prepared: Prepared, tenure: Tenure, error: LinkDown | ServerSaid, marker: int
    ) -> LockError:
        """The release failed or was not answered. The keeper retries for a while; after that the ttl ends the grant."""
        from holdtight.keeper.charges import DeferredUndo

        step = prepared.withdraw_step(tenure.owner, marker=marker)
        self.place.runtime.keeper.ask(DeferredUndo(self.place, step, tenure.ttl))
        self.report_release_failed(tenure, error)
        return self.meaning(error, tenure.name)

    def report_release_failed(self, tenure: Tenure, error: LinkDown | ServerSaid) -> None:
        from holdtight.events import ReleaseFailed

        if self.events.record is not None:
            self.events.record((RELEASE_FAILED, tenure, self.place.clock()))
        name, owner, of = tenure.name, owner_text(tenure.owner), _of(tenure.terms)
        self.events.emit(ReleaseFailed(name, owner, tenure.fence, str(error), **of))


def _about(asking: Asking) -> tuple[str, str]:
    return asking.question.claim.name, owner_text(asking.owner)


def _of(terms: Terms) -> dict[str, Any]:
    """The fields that all events about a lock have."""
    return {"kind": terms.kind, "template": terms.template}


def _reason(error: BaseException | None, wait: float | None) -> str:
    """The reason for an acquisition without a lease, as `Failed` tells it."""
    if error is None or (wait == 0 and isinstance(error, LockTimeout)):
        return "busy"
    if not isinstance(error, Exception):
        return "cancelled"
    return _REASONS.get(getattr(error, "code", ""), "error")
