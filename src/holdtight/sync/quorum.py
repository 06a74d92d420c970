"""`Lock` on a quorum, for blocking code."""

from types import TracebackType
from typing import Any, cast

from holdtight.core.contend import acquire, patience
from holdtight.core.quorum import RELEASE_SECONDS, Round, judge_release, release, release_steps, renew
from holdtight.identity import Identity, identity
from holdtight.plan import LinkDown, ServerSaid, Step
from holdtight.quorumlock import QuorumLockMixin
from holdtight.quorumtenure import Finish, QuorumTenure
from holdtight.redis.ballot import RESIGN_WHOLE, VOTED, agreed_fence, tally
from holdtight.sync.crews import Crew, Fleet
from holdtight.sync.fan import FanDriver
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock
from holdtight.sync.wires import Sheet
from holdtight.tenure import Tenure
from holdtight.values import LossReason

__all__ = ["QuorumLock"]


class QuorumLock(QuorumLockMixin, Lock):
    """A lock that a majority of nodes must agree on."""

    __slots__ = ()

    def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> Lease | None:
        """The usual path: all nodes asked once, a majority that agrees, no plan. What is not usual goes on with one."""
        locks = self._locks
        fleet, ballot, clock = locks.fleet, self.ballot, self._clock
        store, majority = ballot.store, ballot.majority
        started = clock()
        crew = fleet.take_ready((), started) if not locks.closed and store.knows_all(started) else None
        if crew is None:
            return self._by_plan(None, None, wait, who, or_none)
        owner = locks.client.owner()
        longest = self._patience
        if wait is not self._wait:
            longest = patience(ballot, wait, locks.settings.connect_timeout)
        requests, limits = ballot.vote_requests(owner, now=started, patience=longest, words=crew.words)
        count = len(limits)
        found = Round(owner, limits)
        found.ways = ways = list(crew.wires)
        sheet = Sheet(count, raw=True)
        try:
            crew.send_all(sheet, requests, [VOTED] * count, started)
            crew.gather(sheet, majority, count - majority + 1, started + longest, clock)
            sheet.wanted = False
            fence = agreed_fence(sheet.answers, majority)
        except BaseException as error:
            sheet.wanted = False
            self._take_back(crew, found, wait, or_none, error)
            raise
        if fence is None or clock() - started >= ballot.valid:
            found.answers = ballot.read_votes(sheet.answers, started)
            return self._by_plan(crew, found, wait, who, or_none)
        fleet.give(crew, started)
        store.learn(sheet.answers, started)
        granted, open_ = tally(sheet.answers, limits)
        tenure = QuorumTenure.of_one_moment(self.terms, self._tell, owner, fence, started, granted, open_, ways)
        tenure.keep(started)
        lease = Lease(self, tenure)
        if self._unusual:
            self.see_to(lease, who)
        if locks.events.loud:
            locks.report_quick_grant(self._name, owner, fence)
        return lease

    def _take_back(self, crew: Crew, found: Round, wait: float | None, or_none: bool, error: BaseException) -> None:
        """Interrupted while it asked: whatever the nodes have heard of it is withdrawn."""
        asking, poll = self.poll(wait, or_none)
        poll.begin(found)
        with FanDriver(self._locks.fleet, crew=crew) as driver:
            driver.broken_off = True
            driver.run(poll.undo())
        self._locks.report_failure(asking, error)

    def _by_plan(
        self, crew: Crew | None, begun: Round | None, wait: float | None, who: Identity, or_none: bool
    ) -> Lease | None:
        locks = self._locks
        asking, poll = self.poll(wait, or_none)
        if begun is not None:
            asking.owner = begun.owner
            poll.begin(begun)
        with FanDriver(locks.fleet, crew=crew) as driver:
            try:
                granted = driver.run(acquire(asking))
            except BaseException as error:
                locks.report_failure(asking, error)
                raise
        if granted is None:
            return None
        locks.report_grant(asking, granted.grant)
        lease = Lease(self, self.tenure_of(asking, poll, granted.grant, self._tell))
        if self._unusual:
            self.see_to(lease, who)
        return lease

    def give_back(self, tenure: Tenure) -> None:
        held = cast(QuorumTenure, tenure)
        was_lost, left = self.finish(held)
        if tenure.reason is LossReason.FORKED:
            return
        fleet = self._locks.fleet
        try:
            now = self._clock()
            crew = None if was_lost else fleet.take_ready(left.ways, now)
            if crew is not None and _can_take_all(crew, fleet, left):
                reason = self._resign_at_once(crew, held, left, now)
            else:
                plan = release(self.ballot, held.place.names, tenure.owner, **left._asdict())
                with FanDriver(fleet, left.ways, crew=crew) as driver:
                    reason = driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            if was_lost:
                return  # which is worse, and told by who asked
            raise self.not_released(held, error) from error
        except BaseException:
            self.leave_to_the_keeper(held, left)
            raise
        if not was_lost:
            self.released(held, reason)

    def _resign_at_once(self, crew: Crew, tenure: QuorumTenure, left: Finish, now: float) -> LossReason | None:
        """The usual path: one request to every node, no plan."""
        ballot = self.ballot
        steps = cast("list[Step]", release_steps(ballot, tenure.owner, *left))
        sheet = Sheet(len(steps), raw=True)
        try:
            crew.send_all(sheet, [step.before for step in steps], steps, now)
            crew.gather(sheet, ballot.majority, len(steps) + 1, now + RELEASE_SECONDS, self._clock)
        except BaseException:
            crew.break_off()
            raise
        finally:
            sheet.wanted = False
        self._locks.fleet.give(crew, now)
        return judge_release(ballot.read_releases(sheet.answers), tenure.place.names, ballot.majority)

    def downgrade(self, tenure: Tenure) -> Lease:
        raise self.refuse("downgrade")

    def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        held = cast(QuorumTenure, tenure)
        terms = self.renewal_terms(held, ttl, last)
        plan = renew(
            self.ballot, tenure.owner, fence=tenure.fence, ttl=terms.asked, now=terms.now, patience=terms.patience
        )
        with FanDriver(self._locks.fleet) as driver:
            renewed = driver.run(plan)
        self.renewed(held, terms, renewed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease: Any = identity().leave_block(self.key)
        lease.leave(error)


def _can_take_all(crew: Crew, fleet: Fleet, left: Finish) -> bool:
    """Every node is to be told, in one way: by this crew, after what it was asked before, and by a name it knows."""
    for index, wire in enumerate(crew.wires):
        if index in left.markers:
            if left.ways[index] is not wire:
                return False
        elif index not in left.holding:
            return False
    return all(RESIGN_WHOLE in pool.knows for pool in fleet.pools)
