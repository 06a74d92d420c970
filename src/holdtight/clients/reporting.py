"""Reports what happens to a client's locks as events, from the thread in which it happens."""

from typing import TYPE_CHECKING

from holdtight.base.event_bus import Events
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.values import Grant, Owner, owner_text
from holdtight.errors import DeadlockDetected, LockError, LockTimeout, quotable
from holdtight.grants.tenure import Tenure
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.boundary import Place, Prepared

if TYPE_CHECKING:
    from holdtight.core.contend import Asking

__all__ = ["Reports"]


class Reports:
    """The part of a client that emits events."""

    events: Events
    place: Place

    def meaning(self, error: LinkDown | ServerSaid, name: str | None) -> LockError:
        raise NotImplementedError

    def report_grant(self, asking: "Asking", grant: Grant) -> None:
        if grant.expired is None and not self.events.loud:
            return
        from holdtight.events import Acquired, PreviousExpired, Waited

        name, owner = asking.question.claim.name, owner_text(asking.owner)
        if grant.expired is not None:
            self.events.emit(PreviousExpired(name, owner, owner_text(grant.expired)))
        if self.events.wanted:
            waited = max(0.0, grant.sent - asking.started)
            if asking.queued:
                self.events.emit(Waited(name, owner, waited, True))
            self.events.emit(Acquired(name, owner, grant.fence, waited))

    def report_failure(self, asking: "Asking", error: BaseException) -> None:
        if not self.events.wanted and not isinstance(error, DeadlockDetected):
            return
        from holdtight.events import DeadlockFound, TimedOut, Waited

        name, owner, waited = asking.question.claim.name, owner_text(asking.owner), self.place.clock() - asking.started
        if isinstance(error, DeadlockDetected):
            self.events.emit(DeadlockFound(name, owner, waited, error.cycle))
        if isinstance(error, LockTimeout):
            self.events.emit(TimedOut(name, owner, waited, error.holder.owner if error.holder else None))
        if asking.queued:
            self.events.emit(Waited(name, owner, waited, False))

    def report_quick_grant(self, name: str, owner: Owner, fence: int) -> None:
        from holdtight.events import Acquired

        self.events.emit(Acquired(name, owner_text(owner), fence, 0.0))

    def report_turn(self, tenure: Tenure, started: float) -> None:
        """Another thread or task of this client has handed the lock on (see clients/cohort.py)."""
        from holdtight.events import Acquired, Waited

        owner, waited = owner_text(tenure.owner), tenure.since - started
        self.events.emit(Waited(tenure.name, owner, waited, True))
        self.events.emit(Acquired(tenure.name, owner, tenure.fence, waited))

    def report_release(self, tenure: Tenure) -> None:
        from holdtight.events import Released

        held = self.place.clock() - tenure.since
        self.events.emit(Released(tenure.name, owner_text(tenure.owner), tenure.fence, held))

    def report_detached(self, tenure: Tenure) -> None:
        if not self.events.wanted:
            return
        from holdtight.events import Detached

        held = self.place.clock() - tenure.since
        self.events.emit(Detached(tenure.name, owner_text(tenure.owner), tenure.fence, held))

    def report_downgraded(self, tenure: Tenure, fence: int) -> None:
        if not self.events.wanted:
            return
        from holdtight.events import Downgraded

        held = self.place.clock() - tenure.since
        self.events.emit(Downgraded(tenure.name, owner_text(tenure.owner), fence, held))

    def report_degraded(self, name: str, owner: Owner, how: str, cause: BaseException) -> None:
        from holdtight.events import Degraded

        self.events.emit(Degraded(name, owner_text(owner), how, quotable(cause)))

    def report_no_release(
        self, prepared: Prepared, tenure: Tenure, error: LinkDown | ServerSaid, marker: int
    ) -> LockError:
        """The release failed or was not answered. The keeper retries for a while; after that the ttl ends the grant."""
        from holdtight.events import ReleaseFailed

        step = prepared.withdraw_step(tenure.owner, marker=marker)
        self.place.runtime.keeper.ask(DeferredUndo(self.place, step))
        self.events.emit(ReleaseFailed(tenure.name, owner_text(tenure.owner), tenure.fence, str(error)))
        return self.meaning(error, tenure.name)
