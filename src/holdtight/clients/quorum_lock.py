"""The part of quorum locks that blocking and asyncio code share."""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from holdtight.base import process, refusals
from holdtight.base.identity import Identity
from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.values import Denied, ForcedOut, Grant, Guarded, LossReason
from holdtight.clients.terms import LockTerms
from holdtight.config.settings import Options
from holdtight.core.contend import Asking
from holdtight.core.quorum import Poll, say
from holdtight.core.renewal import next_ttl
from holdtight.errors import LockError, NotOwner, QuorumNotReached
from holdtight.grants.lease import BaseLease
from holdtight.grants.quorum_tenure import Finish, QuorumTenure
from holdtight.grants.tenure import Deliver, Tenure
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.boundary import Prepared
from holdtight.stores.redis.quorum_place import QuorumPlace
from holdtight.stores.redis.quorum_store import QuorumClaim
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.clients.client import BaseLocks

__all__ = ["QuorumLockMixin"]


class RenewalTerms(NamedTuple):
    now: float
    ttl: float
    asked: float
    patience: float


class QuorumLockMixin:
    """Comes before the Lock class: turns votes into tenures, and ends them."""

    __slots__ = ()

    if TYPE_CHECKING:
        _locks: Any
        _name: str
        prepared: Prepared
        terms: LockTerms

        @property
        def options(self) -> Options: ...
        def asking(self, *args: Any, **kwargs: Any) -> Asking: ...

    @property
    def quorum_claim(self) -> QuorumClaim:
        """A quorum's store prepares a QuorumClaim instead of a request to one server."""
        return cast(QuorumClaim, self.prepared)

    def see_to(self, lease: BaseLease, who: Identity) -> None:
        if self.options.reentrant:
            lease.share(who)

    # Acquiring.

    def poll(self, wait: float | None, or_none: bool, started: float) -> tuple[Asking, Poll]:
        """`started`: when the nodes were first asked, possibly by the fast path without a plan."""
        locks: BaseLocks[Any] = self._locks
        place = cast(QuorumPlace, locks.place)
        poll = Poll(
            self.quorum_claim,
            place.names,
            fresh=locks.client.owner,
            proposal=place.store.proposal,
            clock=place.clock,
        )
        # A quorum has no queue of waiters to follow, so deadlocks are not searched for.
        asking = self.asking(locks.client.owner(), wait, started, None, or_none=or_none)
        asking.poll = poll
        return asking, poll

    def tenure_of(self, asking: Asking, poll: Poll, grant: Grant, deliver: Deliver) -> QuorumTenure:
        """The caller registers the tenure with the keeper only once the Lease exists; otherwise an interrupt leaves a
        grant that is renewed for ever."""
        assert poll.round is not None
        found = poll.round
        sent = {index: each.sent for index, each in found.granted().items()}
        return QuorumTenure(
            self.terms,
            self.prepared,
            deliver,
            asking.owner,
            grant.fence,
            sent,
            found.unanswered(),
            found.connections,
            grant.sent,
        )

    # Releasing.

    def finish(self, tenure: QuorumTenure) -> Finish:
        """Ends the tenure here, before another owner can have the lock."""
        tenure.lost()
        if tenure.reason is LossReason.FORKED:  # threads of the parent may have held its mutexes: do not wait for them
            tenure.ended = True
            return Finish(set(), {}, [])
        left = tenure.finish()
        tenure.drop()
        return left

    def released(self, tenure: QuorumTenure, reason: LossReason | None) -> None:
        if reason is not None:
            tenure.lost_at_release(reason)
            raise NotOwner.on("release", self._name, reason)
        self._locks.events.refresh()
        self._locks.report_release(tenure)

    def not_released(self, tenure: QuorumTenure, error: LinkDown | ServerSaid) -> LockError:
        """The keeper already has the nodes that did not get the release."""
        self._locks.report_release_failed(tenure, error)
        return cast(LockError, self._locks.place.meaning(error, self._name))

    def let_go(self, tenure: Tenure) -> None:
        """See BaseLock.let_go."""
        held = cast(QuorumTenure, tenure)
        self.leave_to_the_keeper(held, self.finish(held))

    def leave_to_the_keeper(self, tenure: QuorumTenure, left: Finish) -> None:
        if tenure.epoch != process.current.epoch:
            return
        for index in left.holding | left.markers.keys():
            step = self.quorum_claim.withdraw_step(tenure.owner, left.markers.get(index, 0))
            node = tenure.place.nodes[index]
            node.runtime.keeper.ask(DeferredUndo(node, step))

    # Manual renewal.

    def renewal_terms(self, tenure: QuorumTenure, ttl: float | None, last: bool) -> RenewalTerms:
        if last:
            raise refusals.on_a_quorum("detach", self._name)
        now = tenure.place.clock()
        wanted = self._locks.settings.check_ttl(tenure.ttl if ttl is None else ttl)
        asked = next_ttl(wanted, now, tenure.hold_until, tenure.place.store.drift)
        return RenewalTerms(now, wanted, asked, min(LONGEST_PATIENCE, max(0.01, tenure.deadline - now)))

    def renewed(self, tenure: QuorumTenure, terms: RenewalTerms, answers: list[Any]) -> None:
        """Returns if a majority renewed. Raises NotOwner if the lease is lost, else QuorumNotReached."""
        for index, each in enumerate(answers):
            if isinstance(each, Denied):
                tenure.refused_on(index, LossReason.TAKEN)
            elif isinstance(each, ForcedOut):
                tenure.refused_on(index, LossReason.FORCED)
            elif isinstance(each, Guarded):
                tenure.refused_on(index, LossReason.EXPIRED)
        sent = {index: each.sent for index, each in enumerate(answers) if isinstance(each, Grant)}
        if tenure.lost() or not tenure.alive:
            raise NotOwner.on("renew", self._name, tenure.reason)
        if len(sent) < self.quorum_claim.majority:
            nodes = {name: say(each) for name, each in zip(tenure.place.names, answers, strict=True)}
            raise QuorumNotReached.among(self._name, nodes, self.quorum_claim.majority)
        tenure.set_terms(sent, terms.ttl, terms.asked)
