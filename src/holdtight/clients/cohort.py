"""A lock with `cohort=True`: what both colours share. The local lines stand in clients/cohort_line.py."""

from typing import TYPE_CHECKING, Any

from holdtight.base import process
from holdtight.base.identity import may_block
from holdtight.clients.cohort_line import Cohort, Key, Member, Turn
from holdtight.clients.lock import BaseLock
from holdtight.grants.lease import BaseLease
from holdtight.grants.tenure import Deliver, Tenure

if TYPE_CHECKING:
    from holdtight.base.identity import Identity

__all__ = ["CohortPart"]


class CohortPart(BaseLock):
    """The part of a lock with `cohort=True` that both colours share."""

    __slots__ = ()

    line_key: Key
    """Set by the class of each colour: only one base class of a lock may have slots."""

    def stands_alone(self, wait: float | None, who: "Identity") -> bool:
        """Callers that ask the server themselves: one that does not wait, and one that may wait for itself."""
        return wait == 0 or self._locks.taken_by(self._name, who) is not None

    def sleeps_until(self, wait: float | None, started: float, who: "Identity") -> float:
        """When a member stops waiting in the local line. A member that holds locks then waits in the server's line,
        where the search for deadlocks finds it."""
        until = float("inf") if wait is None else started + wait
        return min(until, started + self._locks.settings.deadlock_after) if may_block(who) else until

    def tenure_of(self, turn: Turn, deliver: Deliver, now: float) -> Tenure:
        terms = self.terms
        owner, fence, sent, marker = turn
        tenure = self.new_tenure(deliver, owner, fence, sent, marker, self._locks.settings.acks)
        tenure.since = now
        if terms.max_hold is not None:
            tenure.hold_until = now + terms.max_hold
            tenure.deadline = min(sent + terms.valid, tenure.hold_until)
        return tenure

    def take_up(self, member: Member, lease: BaseLease, who: "Identity") -> None:
        """The lease of a member that was handed the grant is renewed from now on."""
        tenure, terms = lease.tenure, self.terms
        self.waits_no_more(member)
        lane, due = terms.lane, tenure.since + terms.interval
        if due <= tenure.deadline and lane.armed and lane.epoch == process.current.epoch and due >= lane.latest:
            lane.charges[tenure] = lane.latest = due
        else:
            terms.runtime.keeper.add(tenure, tenure.since)
        if terms.max_hold is not None or terms.options.reentrant:
            self.see_to(lease, who)

    def begin_batch(self, member: Member, tenure: Tenure) -> None:
        """Called by the leader with the grant that it got."""
        cohort: Cohort = self._locks.cohort
        if tenure.stand_in is None:
            cohort.begin(self.line_key, member, tenure, self.terms.clock())
        else:
            self.give_up(member, tenure.deliver)  # degraded: this is no grant of the server

    def pass_on(self, tenure: Tenure) -> bool:
        """Ends the tenure by handing its grant to the next member. False if there is none: then the caller releases
        the grant and calls `end_batch`."""
        terms = self.terms
        if terms.lane.charges.pop(tenure, None) is None:
            terms.runtime.keeper.drop(tenure)
        now = terms.clock()
        if now >= tenure.deadline or tenure.reason is not None or tenure.epoch != process.current.epoch:
            return False
        cohort: Cohort = self._locks.cohort
        if cohort.hand_on(self.line_key, tenure, now):
            if self._locks.events.active:
                self._locks.report_release(tenure)
            return True
        return False

    def waits(self, member: Member) -> None:
        """The member is in the local line, for metrics."""
        events = self._locks.events
        if events.record is not None:
            events.waiting[member] = self

    def waits_no_more(self, member: Member) -> None:
        events = self._locks.events
        if events.record is not None:
            events.waiting.pop(member, None)

    def report_left(self, member: Member, wait: float | None, error: BaseException) -> None:
        """Reports a member that leaves the local line with this error, without having asked the server."""
        self.waits_no_more(member)
        self._locks.report_failed(self.terms, self._name, "", member.since, wait, error, queued=True)

    def give_up(self, member: Member, deliver: Deliver) -> None:
        """A member stops waiting or leading. If it was handed the grant, the next member gets that, or the server."""
        cohort: Cohort = self._locks.cohort
        turn = cohort.quit(self.line_key, member, self.terms.clock())
        if turn is not None:
            super().let_go(self.tenure_of(turn, deliver, self.terms.clock()))
            cohort.over(self.line_key, member)

    def let_go(self, tenure: Tenure) -> None:
        super().let_go(tenure)
        self.end_batch(tenure)

    def end_batch(self, tenure: Tenure) -> None:
        """The grant was released or is lost, or its holder will renew, detach or downgrade it: nobody else gets it
        here, and the next member asks the server."""
        cohort: Cohort = self._locks.cohort
        cohort.over(self.line_key, tenure)

    def reading(self) -> Any:
        options = self.options._replace(cohort=False)
        plain = self._locks.lock_type(self._locks, self._name, self._locks.terms_of(options))
        return plain.reading()
