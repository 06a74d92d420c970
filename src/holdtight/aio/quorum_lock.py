"""`AsyncLock` on a quorum."""

import asyncio
from functools import partial
from typing import Any, cast

from holdtight.aio.broadcast import Broadcast
from holdtight.aio.lease import AsyncLease
from holdtight.aio.lock import AsyncLock
from holdtight.aio.quorum_driver import FanDriver, QuorumTransport
from holdtight.base import refusals
from holdtight.base.identity import Identity
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.clients.quorum_lock import QuorumLockMixin
from holdtight.core.contend import acquire, patience
from holdtight.core.quorum import Round, renew
from holdtight.core.quorum_ending import RELEASE_SECONDS, release, release_after
from holdtight.grants.quorum_tenure import QuorumTenure
from holdtight.grants.tenure import Tenure
from holdtight.stores.redis.quorum_store import RESIGN, QuorumClaim, voted
from holdtight.stores.redis.vote_replies import VoteReplies, agreed_fence

__all__ = ["AsyncQuorumLock"]


class AsyncQuorumLock(QuorumLockMixin, AsyncLock):
    """A lock that needs the agreement of a majority of nodes."""

    __slots__ = ()

    def _driver(self) -> FanDriver:
        return FanDriver(cast(QuorumTransport, self._locks.transport()))

    async def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> AsyncLease | None:
        """The fast path: asks all nodes once, gets a majority, uses no plan. In all other cases a plan continues."""
        locks, clock = self._locks, self.terms.clock
        prepared = cast(QuorumClaim, self.prepared)
        store = prepared.store
        transport = self._transport()
        started = clock()
        leads = None if locks.closed else store.leads(started)
        if leads is None or not transport.all_ready():
            return await self._by_plan(None, started, wait, who, or_none)
        owner = locks.client.owner()
        longest = self.terms.patience
        if wait is not self.terms.wait:
            longest = patience(prepared, wait, locks.settings.connect_timeout)
        inbox_args, connections = transport.inbox_args, transport.connections
        used = inbox_args.at(started)
        requests, limits, _ = prepared.vote_requests(owner, now=started, patience=longest, leads=leads, inbox_args=used)
        majority = store.majority
        broadcast = Broadcast(transport, requests, voted, enough=majority, too_many=len(limits) - majority + 1)
        vote_replies = VoteReplies(broadcast.replies, limits, connections)
        broadcast.send(connections, longest)
        try:
            await broadcast.over
        except BaseException as error:
            broadcast.end(None)
            await self._take_back(Round(owner, vote_replies.all_markers(), connections), started, wait, error)
            raise
        fence = agreed_fence(broadcast.replies, majority)
        if fence is None or clock() - started >= prepared.valid:
            found = Round(owner, vote_replies.all_markers(), connections)
            found.answers = prepared.read_votes(broadcast.replies, started)
            return await self._by_plan(found, started, wait, who, or_none)
        inbox_args.learn(used, broadcast.replies)
        store.learn(broadcast.replies, started)
        tenure = QuorumTenure.of_one_moment(
            self.terms, prepared, transport.deliver, owner, fence, started, vote_replies
        )
        lease = AsyncLease(self, tenure)
        tenure.keep(started)
        if self.terms.unusual:
            self.see_to(lease, who)
        if locks.events.active:
            await lease.tell(locks.report_quick_grant, tenure, started)
        return lease

    def _transport(self) -> QuorumTransport:
        transport = self._locks.latest
        if transport is None or transport.loop is not asyncio.get_running_loop():
            transport = self._locks.transport()
        return cast(QuorumTransport, transport)

    async def _take_back(self, found: Round, started: float, wait: float | None, error: BaseException) -> None:
        """After a cancellation: withdraws whatever the nodes may have received."""
        asking, poll = self.poll(wait, False, started)
        poll.begin(found)
        with self._driver() as driver:
            await driver.run(poll.undo())
        self._locks.report_failure(self.terms, asking, error)

    async def _by_plan(
        self, begun: Round | None, started: float, wait: float | None, who: Identity, or_none: bool
    ) -> AsyncLease | None:
        locks = self._locks
        asking, poll = self.poll(wait, or_none, started)
        self.doubt_oneself(asking, who)
        if begun is not None:
            asking.owner = begun.owner
            poll.begin(begun)
        with self._driver() as driver:
            try:
                if begun is None:
                    locks.check_open()  # after a request was sent, the plan checks this, so that it can undo it
                granted = await driver.run(acquire(asking))
            except BaseException as error:
                locks.report_failure(self.terms, asking, error)
                raise
        if granted is None:
            locks.report_failure(self.terms, asking, None)
            return None
        tenure = self.tenure_of(asking, poll, granted.grant, locks.transport().deliver)
        lease = AsyncLease(self, tenure)
        tenure.keep(granted.grant.sent)
        if self.terms.unusual:
            self.see_to(lease, who)
        await lease.tell(locks.report_grant, tenure, asking, granted.grant)
        return lease

    async def give_back(self, tenure: Tenure) -> None:
        held = cast(QuorumTenure, tenure)
        if held.lost():
            self.let_go(held)  # no answer could change anything, and nodes may hang
            return
        asked = self._resign_at_once(held)
        if asked is None:
            await self._give_back_by_plan(held)
            return
        try:
            answer = await asked
        except asyncio.CancelledError:
            self.let_go(held)
            raise
        await self._give_back_slowly(None, held, answer)

    def _give_back_at_once(self, tenure: Tenure) -> "asyncio.Future[Any] | None":
        """The usual end of a block; see AsyncLock."""
        if tenure.entered != 1 or self.terms.unusual or not tenure.alive or tenure.lost():
            return None
        asked = self._resign_at_once(cast(QuorumTenure, tenure))
        if asked is not None:
            tenure.entered = 0
        return asked

    def _resign_at_once(self, tenure: QuorumTenure) -> "asyncio.Future[Any] | None":
        """The fast path: one request to every node, on the connections of the votes. The future's result is 1 if a
        majority released, else the Broadcast. Returns None if a plan is needed."""
        transport, vote_replies = self._transport(), tenure.vote_replies
        if vote_replies is None or transport.closed or not transport.all_ready():
            return None
        if transport.connections is not vote_replies.connections:
            return None
        if not transport.all_know(RESIGN) or not tenure.finish_at_once():
            return None
        tenure.drop()
        prepared = self.quorum_claim
        requests = [prepared.resign_request(tenure.owner)] * len(vote_replies.limits)
        step_for = partial(prepared.resign_step_after, tenure.owner, vote_replies)
        broadcast = Broadcast(transport, requests, step_for, enough=prepared.majority, too_many=len(requests) + 1)
        broadcast.send(transport.connections, RELEASE_SECONDS)
        return broadcast.over

    async def _give_back_slowly(self, transport: Any, tenure: Tenure, first: Any) -> None:
        """Continues from the result of `_resign_at_once`."""
        held, majority = cast(QuorumTenure, tenure), self.quorum_claim.majority
        reason = None
        if first != 1:
            answers = self.quorum_claim.read_releases(first.replies)
            plan = release_after(answers, held.place.names, majority, first.step_for)
            try:
                with self._driver() as driver:
                    reason = await driver.run(plan)
            except (LinkDown, ServerSaid) as error:
                raise self.not_released(held, error) from error
        self.released(held, reason)

    async def _give_back_by_plan(self, tenure: QuorumTenure) -> None:
        left = self.finish(tenure)
        try:
            plan = release(self.quorum_claim, tenure.place.names, tenure.owner, **left._asdict())
            with self._driver() as driver:
                reason = await driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            raise self.not_released(tenure, error) from error
        except asyncio.CancelledError:
            self.leave_to_the_keeper(tenure, left)
            raise
        self.released(tenure, reason)

    async def downgrade(self, tenure: Tenure) -> AsyncLease:
        raise refusals.on_a_quorum("downgrade", self._name)

    async def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        held = cast(QuorumTenure, tenure)
        terms = self.renewal_terms(held, ttl, last)
        plan = renew(
            self.quorum_claim,
            held.owner,
            held,
            fence=held.fence,
            ttl=terms.asked,
            now=terms.now,
            patience=terms.patience,
        )
        with self._driver() as driver:
            renewed = await driver.run(plan)
        self.renewed(held, terms, renewed)
