"""`Lock` with `cohort=True`, for blocking code. See clients/cohort.py."""

from typing import TYPE_CHECKING, Any

from holdtight.base.identity import Identity, running_loop
from holdtight.base.runtime import Runtime
from holdtight.clients.cohort import CohortPart
from holdtight.clients.cohort_line import CLOSED, LEAD, Member, Turn, key_of
from holdtight.clients.terms import LockTerms
from holdtight.grants.tenure import Tenure
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock

if TYPE_CHECKING:
    from holdtight.clients.client import BaseLocks

__all__ = ["CohortLock"]


class Sleeping(Member):
    """A thread that waits."""

    __slots__ = ("_put", "sleep")

    def __init__(self, since: float, runtime: Runtime) -> None:
        super().__init__(since)
        sleeper = runtime.sleeper()
        self._put = sleeper.wake
        self.sleep = sleeper.sleep

    def wake(self, news: Turn) -> bool:
        self._put(news)
        return True


class CohortLock(CohortPart, Lock):
    __slots__ = ("line_key",)

    def __init__(self, locks: "BaseLocks[Any]", name: str, terms: LockTerms) -> None:
        super().__init__(locks, name, terms)
        self.line_key = key_of(name, terms)

    def _attempt(self, wait: float | None, who: Identity, or_none: bool, in_block: bool) -> Lease | None:
        if self.stands_alone(wait, who) or running_loop() is not None:
            return super()._attempt(wait, who, or_none, False)
        locks, terms = self._locks, self.terms
        clock = terms.clock
        if locks.closed:
            locks.check_open()
        started = clock()
        member, asks = Sleeping(started, self.terms.runtime), False
        try:
            if locks.cohort.enter(self.line_key, member, started, self.terms.shape.max_waiters):
                asks = True
                return self._led(member, super()._attempt(wait, who, or_none, False))
            self.waits(member)
            news: Turn | None = member.sleep(self.sleeps_until(wait, started, who))
            if news is LEAD:
                asks = True
                self.waits_no_more(member)
                return self._led(member, self._now(wait, started, who))
            now = clock()
            if news is not None and news is not CLOSED and now < news.sent + terms.valid:
                return self._handed(member, news, now, who)
        except BaseException as error:
            self.give_up(member, self.terms.tell)
            if not asks:
                self.report_left(member, wait, error)
            raise
        self.give_up(member, self.terms.tell)
        self.waits_no_more(member)
        locks.check_open()
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

    def _handed(self, member: Member, turn: Turn, now: float, who: Identity) -> Lease:
        lease = Lease(self, self.tenure_of(turn, self.terms.tell, now))
        try:
            self.take_up(member, lease, who)
            if self._locks.events.active:
                lease.tell(self._locks.report_turn, lease.tenure, member.since)
            return lease
        except BaseException:
            lease.forsake()
            raise

    def give_back(self, tenure: Tenure) -> None:
        try:
            if self.pass_on(tenure):
                return
        except BaseException:  # an interrupt: release the grant, unless the next member has it already
            if self._locks.cohort.has(self.line_key, tenure):
                self.let_go(tenure)
            raise
        try:
            super().give_back(tenure)
        finally:
            self.end_batch(tenure)

    def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        self.end_batch(tenure)
        super().renew_tenure(tenure, ttl, last=last)

    def downgrade(self, tenure: Tenure) -> Lease:
        self.end_batch(tenure)
        return super().downgrade(tenure)
