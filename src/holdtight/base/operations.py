"""What operators read: audit records, and the findings of `doctor`. Loaded when one of them is needed."""

import enum
from typing import Any, NamedTuple

from holdtight.base.values import Holder, Kind

__all__ = ["AuditRecord", "Finding", "Severity"]


class AuditRecord(NamedTuple):
    """What an operator did to a lock, from `force_release` and `audit`. `as_dict()` gives what JSON takes.

    Options:
        id: unique to this act; on a quorum the same on all nodes.
        at: when it was done, in seconds of the server's time of day.
        action: "force_release".
        name: the lock's name.
        kind: what was held.
        holders: those that lost it, each a `Holder`.
        fence: higher than every fence that they had, and lower than that of the next holder. It belongs to no holder:
            an operator may claim it at the resource, to shut out what the old holders still send.
        next: the owner that was given the lock in the same step; None if there was no waiter.
        by: who did it.
        reason: why.
        host: the machine on which it was asked for.
        pid: the process there.
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
        """The fields, as `json.dumps` takes them."""
        return _plain(self)


class Severity(enum.Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(NamedTuple):
    """Something that `doctor` found. `as_dict()` gives what JSON takes.

    Options:
        id: which finding it is, such as "EVICTION".
        severity: how bad it is, as a `Severity`.
        node: the server that it concerns; None if it concerns all of them.
        seen: what was seen there.
        means: what that does to locks.
        change: what to do about it.
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
        """The fields, as `json.dumps` takes them."""
        return _plain(self)


def _plain(value: Any) -> dict[str, Any]:
    from holdtight.base.showing import plain

    found: dict[str, Any] = plain(value)
    return found
