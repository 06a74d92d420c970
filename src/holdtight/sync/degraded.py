"""Degraded leases for blocking code. See clients/degraded.py."""

from typing import TYPE_CHECKING, Any

from holdtight.base.identity import Identity
from holdtight.base.values import Owner
from holdtight.clients.degraded import end_fail_open_tenure, fail_open_tenure
from holdtight.core.contend import Asking
from holdtight.grants.tenure import Tenure
from holdtight.sync.lease import Lease

if TYPE_CHECKING:
    from holdtight.sync.lock import Lock

__all__ = ["FailOpen", "without_the_server"]


def without_the_server(lock: "Lock", error: BaseException, asking: Asking, who: Identity) -> "Lease | None":
    """Grants what `on_unavailable` asks for, within the rest of the caller's limit."""
    locks: Any = lock.client
    how = locks.settings.on_unavailable
    lease: Lease | None
    stand_in = locks.stand_in if how == "local" else None
    locks.check_open()  # after the stand-in exists: a close() from now on also closes the stand-in
    if stand_in is not None:
        other: Lock = stand_in.keep_sibling(lock, lock.options)
        lease = other.try_acquire() if asking.or_none else other.take(asking.wait_left(), who)
        if lease is None:
            return None
        lease.tenure.stand_in_by(other)
    else:
        lease = FailOpen(lock).lease(asking.owner)
        lock.see_to(lease, who)
    lease.tell(locks.report_degraded, lock, lease.tenure.owner, how, error)
    return lease


class FailOpen:
    """Stands in for a lock whose server cannot be reached, and lets every caller run."""

    def __init__(self, lock: "Lock") -> None:
        self.key = lock.key
        self._lock = lock

    def lease(self, owner: Owner) -> Lease:
        clock = self._lock.terms.place.clock
        tenure = fail_open_tenure(self._lock, self._lock.terms.place.runtime.tell, owner, clock())
        tenure.stand_in_by(self)
        return Lease(self, tenure)

    def give_back(self, tenure: Tenure) -> None:
        end_fail_open_tenure(tenure, self._lock.client)

    def let_go(self, tenure: Tenure) -> None:
        end_fail_open_tenure(tenure, self._lock.client)

    def renew_tenure(self, tenure: Tenure, ttl: float | None, *, last: bool = False) -> None:
        """Nothing to renew: only max_hold can end this lease early."""

    def downgrade(self, tenure: Tenure) -> Lease:
        return FailOpen(self._lock.reading()).lease(tenure.owner)
