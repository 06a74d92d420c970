"""Values for operators: audit records, findings of `doctor`, and what the code behind them passes around. Loaded on
first use."""

import enum
from typing import Any, NamedTuple, Protocol

from holdtight.base.values import Holder, Kind, Owner

__all__ = ["Around", "AuditRecord", "Finding", "ForcedRelease", "ReplicaSeen", "SentinelSeen", "Severity"]


class AuditRecord(NamedTuple):
    """What an operator did to a lock, from `force_release` and `audit`. `as_dict()` returns what JSON can encode.

    Options:
        id: unique to this act; on a quorum the same on all nodes.
        at: when it was done, in seconds of the server's time of day.
        action: "force_release"; "force_close" for a session of the lock service, and for each lock that it held; or
            "bless" for nodes of a quorum that an operator vouched for.
        name: the lock's name; empty if the act is not about a lock.
        kind: what was held; None if nothing was.
        holders: those that lost it, each a `Holder`.
        fence: higher than every fence that they had, and lower than that of the next holder. It belongs to no holder:
            an operator may claim it at the resource, to shut out what the old holders still send.
        next: the owner that was given the lock in the same step; None if there was no waiter.
        by: who did it.
        reason: why.
        host: the machine that asked for it.
        pid: the process there.

    Example:
        >>> text = locks.lock("payout").acquire().detach()
        >>> record = locks.force_release("payout", reason="nobody adopts it", by="ops")
        >>> record.action, record.by, len(record.holders)
        ('force_release', 'ops', 1)
    """

    id: str
    at: float
    action: str
    name: str
    kind: Kind | None
    holders: tuple[Holder, ...]
    fence: int
    next: str | None
    by: str
    reason: str
    host: str | None = None
    pid: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        return _plain(self)


class Severity(enum.Enum):
    """How bad a finding is: ERROR for locks that may fail, WARNING for what endangers them, NOTE for what is worth
    knowing.

    Example:
        >>> [each.name for each in Severity]
        ['ERROR', 'WARNING', 'NOTE']
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(NamedTuple):
    """Something that `doctor` found. `as_dict()` returns what JSON can encode.

    Options:
        id: which finding it is, such as "EVICTION".
        severity: how bad it is, as a `Severity`.
        node: the server that it concerns; None if it concerns all of them.
        seen: what was seen there.
        means: what that does to locks.
        change: what to do about it.

    Example:
        >>> wrong = [each for each in locks.doctor() if each.severity is not Severity.NOTE]
        >>> for each in wrong:
        ...     print(each)
    """

    id: str
    severity: Severity
    node: str | None
    seen: str
    means: str
    change: str

    def __str__(self) -> str:
        where = f" at {self.node}" if self.node else ""
        return f"{self.severity.value} {self.id}{where}: {self.seen}. {self.means}. {self.change}."

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        return _plain(self)


def _plain(value: Any) -> dict[str, Any]:
    from holdtight.base.showing import plain

    found: dict[str, Any] = plain(value)
    return found


class ForcedRelease(NamedTuple):
    """The result of a forced release at the moment `at` (seconds, server's time). `owners` lost the lock; it is empty
    if none of the named owners held it. `more`: dead waiters remain to be swept. `about` has what the records say of
    each owner, if the request read them."""

    at: float
    fence: int
    next: Owner | None
    owners: tuple[Owner, ...]
    more: bool
    about: tuple[dict[str, Any], ...] = ()


class SentinelSeen(NamedTuple):
    """A Sentinel, as `doctor` sees it; `cause` says why it could not be asked. `sentinels` is the number of
    Sentinels that it knows, itself included."""

    endpoint: str
    cause: str
    master: tuple[str, int] | None
    down_after: float
    sentinels: int
    replicas: tuple[tuple[str, int], ...]
    not_told: str = ""
    """Why it does not tell the replicas."""
    unheard: str = ""
    """Why it announces no failover."""


class ReplicaSeen(NamedTuple):
    """A replica, as `doctor` sees it: its INFO, and how far its clock is ahead of ours."""

    server: str
    cause: str
    info: dict[str, str]
    offset: float


class Around(Protocol):
    """What was seen of the servers around one server; complete once `done`."""

    done: bool
    sentinels: list[SentinelSeen]
    replicas: list[ReplicaSeen]
