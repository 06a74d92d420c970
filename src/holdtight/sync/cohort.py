"""`Lock` with `cohort=True`, for blocking code. See clients/cohort.py."""

from typing import TYPE_CHECKING, Any

from holdtight.base.clock import Sleeper
from holdtight.base.identity import Identity, running_loop
from holdtight.base.runtime import Runtime
from holdtight.clients.cohort import CohortPart
from holdtight.clients.cohort_line import CLOSED, LEAD, Member, Turn, key_of
from holdtight.clients.terms import LockTerms
from holdtight.grants.leak_warning import leak_warning_for
from holdtight.grants.tenure import Tenure
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock

if TYPE_CHECKING:
    from holdtight.clients.client import BaseLocks

__all__ = ["CohortLock"]

_new = object.__new__


class Sleeping(Member):
    """A thread that waits."""

    __slots__ = ("_runtime", "_sleeper", "_who")

    def __init__(self, since: float, runtime: Runtime, who: Identity) -> None:
        super().__init__(since)
        # A thread keeps its sleeper for its next turn. While it sleeps it has none, so that a signal handler that waits
        # in the same thread gets another one.
        kept, who.sleeper = who.sleeper, None
        self._who = who
        self._runtime = runtime
        self._sleeper: Sleeper = kept[1] if kept is not None and kept[0] is runtime else runtime.sleeper()

    def wake(self) -> bool:
        self._sleeper.wake(True)
        return True

    def sleep(self, until: float) -> Turn | None:
        """Returns its news, or None once `until` has passed."""
        sleeper = self._sleeper
        # A wake-up may be left from an earlier turn: then there are no news.
        while sleeper.sleep(until) and self.news is None:
            pass
        self.awake = True
        return self.news

    def rest(self) -> None:
        """After a turn without an exception."""
        self._who.sleeper = self._runtime, self._sleeper


class CohortLock(CohortPart, Lock):
    __slots__ = ("line_key",)

    def __init__(self, locks: "BaseLocks[Any]", name: str, terms: LockTerms) -> None:
        super().__init__(locks, name, terms)
        self.line_key = key_of(name, terms)

    def _attempt(self, wait: float | None, who: Identity, or_none: bool, in_block: bool) -> Lease | None:
        locks, terms = self._locks, self.terms
        if locks.closed or self.stands_alone(wait, who) or running_loop() is not None:
            return super()._attempt(wait, who, or_none, False)
        clock = terms.clock
        started = clock()
        member, asks = Sleeping(started, terms.runtime, who), False
        try:
            if locks.cohort.enter(self.line_key, member, started, terms.shape.max_waiters):
                asks = True
                member.rest()
                return self._led(member, super()._attempt(wait, who, or_none, in_block))
            self.waits(member)
            news = member.sleep(self.sleeps_until(wait, started, who))
            member.rest()
            if news is LEAD:
                asks = True
                self.waits_no_more(member)
                return self._led(member, self._now(wait, started, who))
            now = clock()
            if news is not None and news is not CLOSED and now < news.sent + terms.valid:
                return self._handed(member, news, now, who, in_block)
            self.give_up(member, terms.tell)
            locks.check_open()
        except BaseException as error:
            self.give_up(member, terms.tell)
            if not asks:
                self.report_left(member, wait, error)
            raise
        self.waits_no_more(member)
        return self._now(wait, started, who)

    def _now(self, wait: float | None, started: float, who: Identity) -> Lease | None:
        """Asks the server, after a wait in the local line: that counts as one in the server's. A caller whose wait is
        over asks once; the error then names the holder."""
        now = self.terms.clock()
        over = wait is not None and now >= started + wait
        asking = self.asking(self._locks.client.owner(), 0.0 if over else wait, started, who, or_none=False)
        return self._slowly(asking, who, in_line_since=None if over else now)

    def _led(self, member: Member, lease: Lease | None) -> Lease | None:
        assert lease is not None
        try:
            self.begin_batch(member, lease.tenure)
            return lease
        except BaseException:
            lease.forsake()
            raise

    def _handed(self, member: Member, turn: Turn, now: float, who: Identity, in_block: bool) -> Lease:
        tenure = self.tenure_of(turn, self.terms.tell, now)
        cohort = self._locks.cohort
        try:
            cohort.take_up(self.line_key, member, tenure)
            # From here on the grant is with the tenure, before with the member: only one of them may give it up.
            who.asks = tenure.owner
            lease = _new(Lease)
            lease.lock = self
            lease.tenure = tenure
            if in_block:
                lease.leak_warning = None
                who.stack.append((self.key, lease))
            else:
                lease.leak_warning = leak_warning_for(tenure)
            self.take_up(member, lease, who)
            if self._locks.events.active:
                lease.tell(self._locks.report_turn, tenure, member.since)
            return lease
        except BaseException:
            if cohort.has(self.line_key, tenure):
                self.let_go(tenure)
            raise

    def give_back(self, tenure: Tenure) -> None:
        try:
            if not self.pass_on(tenure):
                super().give_back(tenure)
                self.end_batch(tenure)
        except BaseException:  # also an interrupt: then the grant may be with the next member, or still here
            if not tenure.ended:
                self.let_go(tenure)
            self.end_batch(tenure)
            self._locks.cohort.nudge(self.line_key)
            raise

    def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        self.end_batch(tenure)
        super().renew_tenure(tenure, ttl, last=last)

    def downgrade(self, tenure: Tenure) -> Lease:
        self.end_batch(tenure)
        return super().downgrade(tenure)
