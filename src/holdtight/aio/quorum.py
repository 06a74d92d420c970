"""`AsyncLock` on a quorum."""

import asyncio
from typing import Any, cast

from holdtight.aio.burst import Burst, ready
from holdtight.aio.connection import Connection
from holdtight.aio.fan import FanDriver, QuorumTransport
from holdtight.aio.lease import AsyncLease
from holdtight.aio.lock import AsyncLock
from holdtight.core.contend import acquire, patience
from holdtight.core.quorum import RELEASE_SECONDS, Round, judge_release, release, release_steps, renew
from holdtight.identity import Identity
from holdtight.plan import LinkDown, ServerSaid, Step
from holdtight.quorumlock import QuorumLockMixin
from holdtight.quorumtenure import Finish, QuorumTenure
from holdtight.redis.ballot import RESIGN_WHOLE, VOTED, agreed_fence, tally
from holdtight.tenure import Tenure
from holdtight.values import LossReason

__all__ = ["AsyncQuorumLock"]


class AsyncQuorumLock(QuorumLockMixin, AsyncLock):
    """A lock that a majority of nodes must agree on."""

    __slots__ = ()

    def _driver(self) -> FanDriver:
        return FanDriver(cast(QuorumTransport, self._locks.transport()))

    async def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> AsyncLease | None:
        """The usual path: all nodes asked once, a majority that agrees, no plan. What is not usual goes on with one."""
        locks = self._locks
        ballot = self.ballot
        store, majority, clock = ballot.store, ballot.majority, locks.place.clock
        started = clock()
        if locks.closed or not store.knows_all(started):
            return await self._by_plan(None, wait, who, or_none)
        transport = cast(QuorumTransport, locks.transport())
        connections = ready(transport)
        if connections is None:
            return await self._by_plan(None, wait, who, or_none)
        owner = locks.client.owner()
        longest = patience(ballot, wait, locks.settings.connect_timeout)
        words = [connection.inbox_word for connection in connections]
        requests, limits = ballot.vote_requests(owner, now=started, patience=longest, words=words)
        found = Round(owner, limits)
        found.ways = list(connections)
        count = len(limits)
        burst = Burst(transport, [VOTED] * count, enough=majority, too_many=count - majority + 1)
        try:
            await burst.run(connections, requests, longest)
        except BaseException as error:
            await self._take_back(found, wait, or_none, error)
            raise
        finally:
            transport.rest()
        fence = agreed_fence(burst.replies, majority)
        if fence is None or clock() - started >= ballot.valid:
            found.answers = ballot.read_votes(burst.replies, started)
            return await self._by_plan(found, wait, who, or_none)
        store.learn(burst.replies, started)
        granted, open_ = tally(burst.replies, limits)
        tenure = QuorumTenure.of_one_moment(
            self.terms, transport.deliver, owner, fence, started, granted, open_, found.ways
        )
        tenure.keep(started)
        lease = AsyncLease(self, tenure)
        if self._unusual:
            self.see_to(lease, who)
        if locks.events.loud:
            locks.report_quick_grant(self._name, owner, fence)
        return lease

    async def _take_back(self, found: Round, wait: float | None, or_none: bool, error: BaseException) -> None:
        """Cancelled while it asked: whatever the nodes have heard of it is withdrawn."""
        asking, poll = self.poll(wait, or_none)
        poll.begin(found)
        with self._driver() as driver:
            await driver.run(poll.undo())
        self._locks.report_failure(asking, error)

    async def _by_plan(
        self, begun: Round | None, wait: float | None, who: Identity, or_none: bool
    ) -> AsyncLease | None:
        locks = self._locks
        asking, poll = self.poll(wait, or_none)
        if begun is not None:
            asking.owner = begun.owner
            poll.begin(begun)
        with self._driver() as driver:
            try:
                granted = await driver.run(acquire(asking))
            except BaseException as error:
                locks.report_failure(asking, error)
                raise
        if granted is None:
            return None
        locks.report_grant(asking, granted.grant)
        lease = AsyncLease(self, self.tenure_of(asking, poll, granted.grant, locks.transport().deliver))
        if self._unusual:
            self.see_to(lease, who)
        return lease

    async def give_back(self, tenure: Tenure) -> None:
        held = cast(QuorumTenure, tenure)
        was_lost, left = self.finish(held)
        if tenure.reason is LossReason.FORKED:
            return
        transport = cast(QuorumTransport, self._locks.transport())
        try:
            connections = None if was_lost else ready(transport)
            if connections is not None and _can_take_all(connections, left):
                reason = await self._resign_at_once(transport, connections, held, left)
            else:
                plan = release(self.ballot, held.place.names, tenure.owner, **left._asdict())
                with self._driver() as driver:
                    reason = await driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            if was_lost:
                return  # which is worse, and told by who asked
            raise self.not_released(held, error) from error
        except asyncio.CancelledError:
            self.leave_to_the_keeper(held, left)
            raise
        if not was_lost:
            self.released(held, reason)

    async def _resign_at_once(
        self, transport: QuorumTransport, connections: list[Connection], tenure: QuorumTenure, left: Finish
    ) -> LossReason | None:
        """The usual path: one request to every node, no plan."""
        ballot = self.ballot
        steps = cast("list[Step]", release_steps(ballot, tenure.owner, *left))
        burst = Burst(transport, steps, enough=ballot.majority, too_many=len(steps) + 1)
        try:
            await burst.run(connections, [step.before for step in steps], RELEASE_SECONDS)
        finally:
            transport.rest()
        answers = ballot.read_releases(burst.replies)
        return judge_release(answers, tenure.place.names, ballot.majority)

    def _give_back_at_once(self, tenure: Tenure) -> "asyncio.Future[Any] | None":
        return None

    async def downgrade(self, tenure: Tenure) -> AsyncLease:
        raise self.refuse("downgrade")

    async def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        held = cast(QuorumTenure, tenure)
        terms = self.renewal_terms(held, ttl, last)
        plan = renew(
            self.ballot, tenure.owner, fence=tenure.fence, ttl=terms.asked, now=terms.now, patience=terms.patience
        )
        with self._driver() as driver:
            renewed = await driver.run(plan)
        self.renewed(held, terms, renewed)


def _can_take_all(connections: list[Connection], left: Finish) -> bool:
    """Every node is to be told, in one way: after what it was asked before, and by a name that it knows."""
    for index, connection in enumerate(connections):
        if RESIGN_WHOLE not in connection.knows:
            return False
        if index in left.markers:
            if left.ways[index] is not connection:
                return False
        elif index not in left.holding:
            return False
    return True
