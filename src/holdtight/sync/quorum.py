"""`Lock` on a quorum, for blocking code."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from holdtight.core.contend import acquire
from holdtight.core.quorum import release, renew
from holdtight.identity import Identity, identity
from holdtight.plan import LinkDown, ServerSaid
from holdtight.quorumlock import QuorumLockMixin
from holdtight.sync.fan import FanDriver
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock
from holdtight.tenure import Tenure
from holdtight.values import LossReason

if TYPE_CHECKING:
    from holdtight.quorum import QuorumTenure

__all__ = ["QuorumLock"]


class QuorumLock(QuorumLockMixin, Lock):
    """A lock that a majority of nodes must agree on."""

    __slots__ = ()

    def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> Lease | None:
        locks = self._locks
        asking, poll = self.poll(wait, or_none)
        with FanDriver(locks.fleet) as driver:
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
        held = cast("QuorumTenure", tenure)
        was_lost, left = self.finish(held)
        if tenure.reason is LossReason.FORKED:
            return
        locks = self._locks
        plan = release(self.ballot, held.place.names, tenure.owner, **left._asdict())
        try:
            with FanDriver(locks.fleet, left.ways) as driver:
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

    def downgrade(self, tenure: Tenure) -> Lease:
        raise self.refuse("downgrade")

    def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        held = cast("QuorumTenure", tenure)
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
