"""`AsyncLock` on a quorum."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

from holdtight.aio.fan import FanDriver, QuorumTransport
from holdtight.aio.lease import AsyncLease
from holdtight.aio.lock import AsyncLock
from holdtight.core.contend import acquire
from holdtight.core.quorum import release, renew
from holdtight.identity import Identity
from holdtight.plan import LinkDown, ServerSaid
from holdtight.quorumlock import QuorumLockMixin
from holdtight.tenure import Tenure
from holdtight.values import LossReason

if TYPE_CHECKING:
    from holdtight.quorumtenure import QuorumTenure

__all__ = ["AsyncQuorumLock"]


class AsyncQuorumLock(QuorumLockMixin, AsyncLock):
    """A lock that a majority of nodes must agree on."""

    __slots__ = ()

    def _driver(self) -> FanDriver:
        return FanDriver(cast(QuorumTransport, self._locks.transport()))

    async def _attempt(self, wait: float | None, who: Identity, or_none: bool) -> AsyncLease | None:
        locks = self._locks
        asking, poll = self.poll(wait, or_none)
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
        held = cast("QuorumTenure", tenure)
        was_lost, left = self.finish(held)
        if tenure.reason is LossReason.FORKED:
            return
        plan = release(self.ballot, held.place.names, tenure.owner, **left._asdict())
        try:
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

    def _give_back_at_once(self, tenure: Tenure) -> "asyncio.Future[Any] | None":
        return None

    async def downgrade(self, tenure: Tenure) -> AsyncLease:
        raise self.refuse("downgrade")

    async def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        held = cast("QuorumTenure", tenure)
        terms = self.renewal_terms(held, ttl, last)
        plan = renew(
            self.ballot, tenure.owner, fence=tenure.fence, ttl=terms.asked, now=terms.now, patience=terms.patience
        )
        with self._driver() as driver:
            renewed = await driver.run(plan)
        self.renewed(held, terms, renewed)
