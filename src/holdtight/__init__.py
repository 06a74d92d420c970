"""holdtight: distributed locks on Redis and Valkey that a holder can trust."""

from typing import TYPE_CHECKING, Any

from holdtight.clock import Backoff, Drift
from holdtight.errors import (
    ClockDrift,
    DeadlockDetected,
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
)
from holdtight.profiles import Profile
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock
from holdtight.sync.locks import Locks
from holdtight.values import Holder, Kind, LockInfo, LossReason, Waiter

if TYPE_CHECKING:
    from holdtight.aio.lease import AsyncLease
    from holdtight.aio.lock import AsyncLock
    from holdtight.aio.locks import AsyncLocks

__version__ = "0.1.0"

__all__ = [
    "AsyncLease",
    "AsyncLock",
    "AsyncLocks",
    "Backoff",
    "ClockDrift",
    "DeadlockDetected",
    "Drift",
    "Holder",
    "Kind",
    "Lease",
    "LeaseLost",
    "Lock",
    "LockError",
    "LockInfo",
    "LockTimeout",
    "Locks",
    "LossReason",
    "NotOwner",
    "NotPermitted",
    "NotSupported",
    "OutOfMemory",
    "Profile",
    "QueueFull",
    "QuorumNotReached",
    "ScriptError",
    "StaleFence",
    "Unavailable",
    "Waiter",
]

_ASYNC = {"AsyncLease": "lease", "AsyncLock": "lock", "AsyncLocks": "locks"}


def __getattr__(name: str) -> Any:
    """asyncio is loaded when something of it is touched, not before."""
    if name not in _ASYNC:
        raise AttributeError(f"module 'holdtight' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"holdtight.aio.{_ASYNC[name]}"), name)
    globals()[name] = value
    return value
