"""holdtight: distributed locks on Redis and Valkey that a holder can trust."""

from typing import TYPE_CHECKING, Any

from holdtight.base.clock import Backoff, Drift
from holdtight.base.values import Holder, Kind, LockInfo, LossReason, Waiter
from holdtight.config.profiles import Profile
from holdtight.errors import (
    ClockDrift,
    DeadlockDetected,
    FlightFailed,
    JobSkipped,
    LeaseLost,
    LockError,
    LockTimeout,
    NotOwner,
    NotPermitted,
    NotSupported,
    OutOfMemory,
    QueueFull,
    QuorumNotReached,
    ScriptError,
    StaleFence,
    Unavailable,
    WrongTransaction,
)
from holdtight.sync.locks import Locks

if TYPE_CHECKING:
    from holdtight.aio.kinds import AsyncReadWriteLock, AsyncSemaphore
    from holdtight.aio.leading import AsyncLeader, AsyncTerm
    from holdtight.aio.lease import AsyncLease
    from holdtight.aio.lock import AsyncLock
    from holdtight.aio.locks import AsyncLocks
    from holdtight.aio.multi import AsyncMulti
    from holdtight.base.jobs import Leadership, Peek, Run, Skipped
    from holdtight.base.operations import AuditRecord, Finding, Severity
    from holdtight.config.options import Duration, Target
    from holdtight.explain import docs
    from holdtight.recipes.current import current_lease
    from holdtight.sync.kinds import ReadWriteLock, Semaphore
    from holdtight.sync.leading import Leader, Term
    from holdtight.sync.lease import Lease
    from holdtight.sync.lock import Lock
    from holdtight.sync.multi import Multi

__version__ = "0.1.0"

__all__ = [
    "AsyncLeader",
    "AsyncLease",
    "AsyncLock",
    "AsyncLocks",
    "AsyncMulti",
    "AsyncReadWriteLock",
    "AsyncSemaphore",
    "AsyncTerm",
    "AuditRecord",
    "Backoff",
    "ClockDrift",
    "DeadlockDetected",
    "Drift",
    "Duration",
    "Finding",
    "FlightFailed",
    "Holder",
    "JobSkipped",
    "Kind",
    "Leader",
    "Leadership",
    "Lease",
    "LeaseLost",
    "Lock",
    "LockError",
    "LockInfo",
    "LockTimeout",
    "Locks",
    "LossReason",
    "Multi",
    "NotOwner",
    "NotPermitted",
    "NotSupported",
    "OutOfMemory",
    "Peek",
    "Profile",
    "QueueFull",
    "QuorumNotReached",
    "ReadWriteLock",
    "Run",
    "ScriptError",
    "Semaphore",
    "Severity",
    "Skipped",
    "StaleFence",
    "Target",
    "Term",
    "Unavailable",
    "Waiter",
    "WrongTransaction",
    "current_lease",
    "docs",
]

_LAZY = {
    "AsyncLeader": "aio.leading",
    "AsyncLease": "aio.lease",
    "AsyncLock": "aio.lock",
    "AsyncLocks": "aio.locks",
    "AsyncMulti": "aio.multi",
    "AsyncReadWriteLock": "aio.kinds",
    "AsyncSemaphore": "aio.kinds",
    "AsyncTerm": "aio.leading",
    "AuditRecord": "base.operations",
    "Duration": "config.options",
    "Finding": "base.operations",
    "Leader": "sync.leading",
    "Leadership": "base.jobs",
    "Lease": "sync.lease",
    "Lock": "sync.lock",
    "Multi": "sync.multi",
    "Peek": "base.jobs",
    "ReadWriteLock": "sync.kinds",
    "Run": "base.jobs",
    "Semaphore": "sync.kinds",
    "Severity": "base.operations",
    "Skipped": "base.jobs",
    "Target": "config.options",
    "Term": "sync.leading",
    "current_lease": "recipes.current",
    "docs": "explain",
}


def __getattr__(name: str) -> Any:
    """Imports on first access what many programs do not need: asyncio and its classes, multi-locks, types, `docs`."""
    if name not in _LAZY:
        raise AttributeError(f"module 'holdtight' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"holdtight.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names: not the packages that importing them has loaded."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
