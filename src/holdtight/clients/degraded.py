"""Degraded leases: what `on_unavailable` grants when the server cannot be reached.

`local`: a lock in this process's memory takes over, so that the threads and tasks of this process still exclude each
other. `open`: every caller runs. Both mark the lease as degraded, give it no fence, and report it each time. A lease
that is held when the server goes away is not affected: it is lost at its deadline.
"""

from typing import TYPE_CHECKING, Any

from holdtight.base.plan import TooFewAcks
from holdtight.base.values import Owner
from holdtight.errors import Unavailable
from holdtight.grants.tenure import Tenure, Terms

if TYPE_CHECKING:
    from holdtight.clients.client import BaseLocks
    from holdtight.clients.lock import BaseLock
    from holdtight.clients.terms import LockTerms
    from holdtight.config.settings import Settings

__all__ = ["end_fail_open_tenure", "fail_open_tenure", "may_degrade", "stand_in_settings"]


def may_degrade(terms: "LockTerms", error: BaseException) -> bool:
    """Only failures to connect or to answer count, never an error reply about the lock, nor replicas that are slow."""
    if not terms.degrades or not isinstance(error, Unavailable):
        return False
    return not isinstance(error.__cause__, TooFewAcks)  # the server answers, and others may hold the lock


def stand_in_settings(locks: "BaseLocks[Any]") -> "Settings":
    """Settings of the in-memory client. All clients of one server in this process share its store."""
    from holdtight.config.targets import Memory

    target = Memory(f"instead of {locks.place.display}")
    return locks.settings._replace(target=target, tls=None, profiles=(), on_unavailable="raise", acks=0)


def fail_open_tenure(lock: "BaseLock", deliver: Any, owner: Owner, now: float) -> Tenure:
    """A tenure without any server's consent. It ends at max_hold, or never."""
    options = lock.options
    terms = Terms(
        lock.terms.shape,
        lock.terms.place,
        lock.terms.events,
        renew=False,
        max_hold=options.max_hold,
        template=options.template,
    )
    tenure = Tenure(terms, lock.prepared, deliver, owner, 0, now, 0)
    tenure.deadline = float("inf") if tenure.hold_until is None else tenure.hold_until
    return tenure


def end_fail_open_tenure(tenure: Tenure, locks: "BaseLocks[Any]") -> None:
    tenure.place.runtime.keeper.drop(tenure)
    tenure.lost()
    tenure.ended = True
    locks.events.refresh()
    locks.report_release(tenure)
