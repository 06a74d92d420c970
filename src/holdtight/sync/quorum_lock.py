"""`Lock` on a quorum, for blocking code."""

from functools import partial
from types import TracebackType
from typing import Any, cast

from holdtight.base import refusals
from holdtight.base.identity import Identity, identity
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.clients.quorum_lock import QuorumLockMixin
from holdtight.config.settings import Settings
from holdtight.core.contend import acquire, patience
from holdtight.core.quorum import Round, renew
from holdtight.core.quorum_ending import RELEASE_SECONDS, release, release_after
from holdtight.grants.leak_warning import leak_warning_for
from holdtight.grants.quorum_tenure import QuorumTenure
from holdtight.grants.tenure import Tenure
from holdtight.stores.boundary import Place
from holdtight.stores.redis.quorum_place import QuorumPlace
from holdtight.stores.redis.quorum_store import RESIGN, QuorumStore, voted
from holdtight.stores.redis.vote_replies import VoteReplies, agreed_fence
from holdtight.sync.backend import Backend
from holdtight.sync.inside import in_a_loop
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock
from holdtight.sync.node_connection import Broadcast
from holdtight.sync.node_group import GroupPool, NodeGroup
from holdtight.sync.pool import Transport
from holdtight.sync.quorum_driver import FanDriver

__all__ = ["QuorumBackend", "QuorumLock"]

_new = object.__new__


class QuorumLock(QuorumLockMixin, Lock):
    """A lock that needs the agreement of a majority of nodes."""

    __slots__ = ()

    def _attempt(self, wait: float | None, who: Identity, or_none: bool, in_block: bool) -> Lease | None:
        """The fast path: asks all nodes once, gets a majority, uses no plan. In all other cases a plan continues."""
        locks = self._locks
        groups, clock = locks.groups, self.terms.clock
        prepared: Any = self.prepared
        store: QuorumStore = prepared.store
        started = clock()
        leads = None if locks.closed else store.leads(started)
        group = None if leads is None else groups.take_ready((), started)
        if leads is None or group is None:
            return self._by_plan(None, None, started, wait, who, or_none)
        owner = locks.client.owner()
        longest = self.terms.patience
        if wait is not self.terms.wait:
            longest = patience(prepared, wait, locks.settings.connect_timeout)
        inbox_args = group.inbox_args.at(started)
        requests, limits, proposal = prepared.vote_requests(
            owner, now=started, patience=longest, leads=leads, inbox_args=inbox_args
        )
        broadcast = Broadcast(requests, voted, started)
        vote_replies = VoteReplies(broadcast.answers, limits, group.connections)
        majority = store.majority
        try:
            group.send_all(broadcast, requests)
            # Meanwhile the nodes work.
            tenure = QuorumTenure.of_one_moment(
                self.terms, prepared, self.terms.tell, owner, proposal, started, vote_replies
            )
            alike = group.gather(broadcast, majority, len(limits) - majority + 1, started + longest, clock)
            broadcast.wanted = False
            # The usual yes, bytes, accepts the proposed fence.
            fence = proposal if alike else agreed_fence(broadcast.answers, majority)
        except BaseException as error:
            broadcast.wanted = False
            self._take_back(
                group, Round(owner, vote_replies.all_markers(), vote_replies.connections), started, wait, error
            )
            raise
        if fence is None or clock() - started >= prepared.valid:
            found = Round(owner, vote_replies.all_markers(), vote_replies.connections)
            found.answers = prepared.read_votes(broadcast.answers, started)
            return self._by_plan(group, found, started, wait, who, or_none)
        group.inbox_args.learn(inbox_args, broadcast.answers)
        groups.give(group, started)
        store.learn(broadcast.answers, started)
        tenure.fence = fence
        lease = _new(Lease)  # before the keeper renews it: an interrupt may come between any two statements
        lease.lock = self
        lease.tenure = tenure
        try:
            if in_block:
                lease.leak_warning = None
                who.stack.append((self.key, lease))
            else:
                lease.leak_warning = leak_warning_for(tenure)
            tenure.keep(started)
            if self.terms.unusual:
                self.see_to(lease, who)
            if locks.events.active:
                lease.tell(locks.report_quick_grant, tenure, started)
            return lease
        except BaseException:
            lease.forsake()
            raise

    def _take_back(
        self, group: NodeGroup, found: Round, started: float, wait: float | None, error: BaseException
    ) -> None:
        """After an interrupt: withdraws whatever the nodes may have received."""
        asking, poll = self.poll(wait, False, started)
        poll.begin(found)
        with FanDriver(self._locks.groups, group=group) as driver:
            driver.broken_off = True
            driver.run(poll.undo())
        self._locks.report_failure(self.terms, asking, error)

    def _by_plan(
        self,
        group: NodeGroup | None,
        begun: Round | None,
        started: float,
        wait: float | None,
        who: Identity,
        or_none: bool,
    ) -> Lease | None:
        locks = self._locks
        asking, poll = self.poll(wait, or_none, started)
        self.doubt_oneself(asking, who)
        asking.before_waiting = in_a_loop(self)
        if begun is not None:
            asking.owner = begun.owner
            poll.begin(begun)
        with FanDriver(locks.groups, group=group) as driver:
            try:
                if begun is None:
                    locks.check_open()  # after a request was sent, the plan checks this, so that it can undo it
                granted = driver.run(acquire(asking))
            except BaseException as error:
                locks.report_failure(self.terms, asking, error)
                raise
        if granted is None:
            locks.report_failure(self.terms, asking, None)
            return None
        tenure = self.tenure_of(asking, poll, granted.grant, self.terms.tell)
        lease = Lease(self, tenure)
        tenure.keep(granted.grant.sent)
        if self.terms.unusual:
            self.see_to(lease, who)
        lease.tell(locks.report_grant, tenure, asking, granted.grant)
        return lease

    def give_back(self, tenure: Tenure) -> None:
        held: Any = tenure
        vote_replies: VoteReplies | None = held.vote_replies
        if held.lost():
            self.let_go(held)  # no answer could change anything, and nodes may hang
            return
        if vote_replies is not None:
            groups = self._locks.groups
            now = self.terms.clock()
            try:
                group = groups.take_ready(vote_replies.connections, now)
            except BaseException:
                held.drop()
                self.leave_to_the_keeper(held, held.finish())
                raise
            if group is not None:
                if group.connections is vote_replies.connections and groups.know(RESIGN) and held.finish_at_once():
                    self._resign_at_once(group, held, vote_replies, now)
                    return
                groups.give(group, now)
        self._give_back_by_plan(held)

    def _resign_at_once(self, group: NodeGroup, tenure: QuorumTenure, vote_replies: VoteReplies, now: float) -> None:
        """The fast path: one request to every node, on the connections of the votes; no plan."""
        prepared: Any = self.prepared
        majority: int = prepared.store.majority
        owner = tenure.owner
        requests = [b"%b$24\r\n%b\r\n" % (prepared.resign_head, owner)] * len(vote_replies.limits)
        broadcast = Broadcast(requests, partial(prepared.resign_step_after, owner, vote_replies), now)
        try:
            group.send_all(broadcast, requests)
            tenure.drop()
            alike = group.gather(broadcast, majority, len(requests) + 1, now + RELEASE_SECONDS, self.terms.clock)
            broadcast.wanted = False
        except BaseException:
            broadcast.wanted = False
            group.break_off()
            tenure.drop()
            self.leave_to_the_keeper(tenure, tenure.finish())
            raise
        if broadcast.forgotten:  # other nodes may lack the script too, and their NOSCRIPT may never be read
            for index, answer in enumerate(broadcast.answers):
                if answer is None:
                    step = broadcast.step_for(index)
                    self._locks.groups.pools[index].leave_to_the_keeper(step.otherwise or step)
        locks = self._locks
        locks.groups.give(group, now)
        if alike:
            if locks.events.active:
                locks.report_release(tenure)
            return
        reason = None
        if broadcast.answers.count(1) < majority:
            answers = prepared.read_releases(broadcast.answers)
            plan = release_after(answers, tenure.place.names, majority, broadcast.step_for)
            try:
                with FanDriver(locks.groups) as driver:
                    reason = driver.run(plan)
            except (LinkDown, ServerSaid) as error:
                raise self.not_released(tenure, error) from error
        self.released(tenure, reason)

    def _give_back_by_plan(self, tenure: QuorumTenure) -> None:
        left = self.finish(tenure)
        try:
            plan = release(self.quorum_claim, tenure.place.names, tenure.owner, **left._asdict())
            with FanDriver(self._locks.groups, left.connections) as driver:
                reason = driver.run(plan)
        except (LinkDown, ServerSaid) as error:
            raise self.not_released(tenure, error) from error
        except BaseException:
            self.leave_to_the_keeper(tenure, left)
            raise
        self.released(tenure, reason)

    def downgrade(self, tenure: Tenure) -> Lease:
        raise refusals.on_a_quorum("downgrade", self._name)

    def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
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
        with FanDriver(self._locks.groups) as driver:
            renewed = driver.run(plan)
        self.renewed(held, terms, renewed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease: Any = None
        try:
            who = identity()
            stack = who.stack
            if who.task is None and stack and stack[-1][0] is self.key:
                lease = stack[-1][1]
                del stack[-1]
            else:
                lease = who.lease_of(self.key)
                who.leave_block(self.key)
            lease.leave(error)
        except BaseException:
            identity().break_off_end(self.key, lease)
            raise


class QuorumBackend(Backend):
    lock_type = QuorumLock

    def __init__(self, place: Place, settings: Settings) -> None:
        quorum = cast(QuorumPlace, place)
        self.groups = GroupPool(quorum, connect_timeout=settings.connect_timeout, spin=settings.spin)

    def driver(self, transport: Transport) -> FanDriver:
        return FanDriver(self.groups)
