"""Frozen values that all layers share. See `base/plan.py` for how they are used.

Named tuples rather than dataclasses: each dataclass costs a millisecond at import.
"""

import base64
import enum
from typing import Any, NamedTuple

__all__ = [
    "HANDED_ON",
    "MORE_TO_SWEEP",
    "RELEASED",
    "Claim",
    "Denied",
    "ForcedOut",
    "Grant",
    "Guarded",
    "Holder",
    "Kind",
    "Late",
    "LockInfo",
    "LossReason",
    "Member",
    "Outcome",
    "Owner",
    "QueueIsFull",
    "Queued",
    "Verdict",
    "Wait",
    "Waiter",
    "Withdrawn",
    "owner_text",
    "shared",
]

Owner = bytes
"""24 bytes: the client's id (8) and a fresh random id (16)."""

CLIENT_ID_SIZE = 8
OWNER_SIZE = 24
LISTED = 500
"""How many holders, and how many waiters, an inspection shows."""


class Kind(enum.Enum):
    """What a lease holds.

    Example:
        >>> with locks.rwlock("book").read() as lease:
        ...     lease.kind.name
        'SHARED'
    """

    EXCLUSIVE = "exclusive"
    """Also the kind of `rwlock(name).write()`."""
    SHARED = "shared"
    """The kind of a reader."""
    PERMITS = "permits"
    """The kind of a semaphore."""
    MULTI = "multi"
    """Several locks at once."""

    __hash__ = object.__hash__  # that of enum is a Python function, and every lock looks for its kind in a dict

    @property
    def text(self) -> str:
        return _KINDS[self]


_KINDS = {
    Kind.EXCLUSIVE: "an exclusive lock",
    Kind.SHARED: "a read-write lock",
    Kind.PERMITS: "a semaphore",
    Kind.MULTI: "a multi-lock",
}


class LossReason(enum.Enum):
    """Why a lease was lost. Final once set.

    Example:
        >>> LossReason.FORCED.text
        'an operator released it by force'
    """

    EXPIRED = "expired"
    TAKEN = "taken"
    FORCED = "forced"
    UNREACHABLE = "unreachable"
    MAX_HOLD = "max_hold"
    FORKED = "forked"

    @property
    def text(self) -> str:
        return _REASONS[self]


class Verdict(enum.Enum):
    """What the answer to a renewal means, if it is not a LossReason."""

    RENEWED = "renewed"
    UNKNOWN = "unknown"


RELEASED = 1
MORE_TO_SWEEP = 2
"""Released; more dead waiters are ahead of the first live one."""
HANDED_ON = 3
"""Released, to a waiter that is trusted to come: the caller checks later that it came.

These three are what the answer to a release means, if it is not Denied. Numbers, because the usual one is compared on
the path of every release."""


_REASONS = {
    LossReason.EXPIRED: "its time ran out (the process was paused, or renewal was off or too late)",
    LossReason.TAKEN: "another owner holds the lock now",
    LossReason.FORCED: "an operator released it by force",
    LossReason.UNREACHABLE: "the server could not be reached until its time ran out",
    LossReason.MAX_HOLD: "it was held for max_hold, the longest that was allowed",
    LossReason.FORKED: "this process was forked from the holder and owns nothing of its parent's",
}


def owner_text(owner: Owner) -> str:
    """An owner as shown to people."""
    return base64.urlsafe_b64encode(owner).decode()


MOST_SHARED = 1000
_shared: dict[float, float] = {}


def shared(number: float) -> float:
    """Returns one object for equal numbers: a hundred thousand locks share the same ttl and the numbers derived from
    it."""
    if len(_shared) >= MOST_SHARED:
        _shared.clear()
    return _shared.setdefault(number, number)


class Claim(NamedTuple):
    """One request for a lock. `n` of `permits` are requested, of a semaphore only."""

    name: str
    ttl: float
    label: str | None = None
    kind: Kind = Kind.EXCLUSIVE
    n: int = 1
    permits: int = 0
    cohort: bool = False
    """A grant comes with fences for further leases of the same process."""


class Holder(NamedTuple):
    """A holder of a lock, as seen from outside. `as_dict()` returns what JSON can encode.

    Options:
        owner: the id of the acquisition.
        fence: its fence; None for a holder whose fence the server does not keep.
        host: the holder's machine; None if its client has left no record.
        pid: its process.
        label: the text that it gave.
        since: when it acquired, in seconds of the server's time of day; None if that is not known.
        expires_in: seconds until the server frees the lock unless it is renewed.
        entered: how many times this client has entered it; None for holders of other clients.
        kind: what it holds.
        n: the number of permits, of a semaphore.
        waits_for: the name of the lock that its thread or task waits for while it holds this one in a block; None if it
            waits for none, or has waited for less than `deadlock_after`. Not known on a quorum.

    Example:
        >>> with locks.lock("order:42", label="checkout"):
        ...     locks.inspect("order:42").holders[0].label
        'checkout'
    """

    owner: str
    fence: int | None = None
    host: str | None = None
    pid: int | None = None
    label: str | None = None
    since: float | None = None
    expires_in: float | None = None
    entered: int | None = None
    kind: Kind = Kind.EXCLUSIVE
    n: int = 1
    waits_for: str | None = None

    def __str__(self) -> str:
        who = self.host or f"owner {self.owner[:11]}..."
        if self.host and self.pid is not None:
            who = f"{who}, pid {self.pid}"
        label = f" ({self.label})" if self.label else ""
        left = f", {self.expires_in:.3g} s left unless renewed" if self.expires_in is not None else ""
        return f"{who}{label}{left}"

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        return _plain(self)


class Waiter(NamedTuple):
    """A waiter in line.

    Options:
        owner: the id of the acquisition.
        host: the waiter's machine; None if its client has left no record.
        pid: its process.
        label: the text that it gave.
        since: when it began to wait, in seconds of the server's time of day; None if that is not known.
        kind: what it waits for: to write, to read, or permits.
        n: the number of permits, of a semaphore.

    Example:
        >>> [waiter.label for waiter in locks.inspect("order:42").waiters]
        []
    """

    owner: str
    host: str | None = None
    pid: int | None = None
    label: str | None = None
    since: float | None = None
    kind: Kind = Kind.EXCLUSIVE
    n: int = 1

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        return _plain(self)


class LockInfo(NamedTuple):
    """The state of one name, from `inspect`. `print()` shows it as a table, `as_dict()` returns what JSON can encode.

    Options:
        name: the lock's name.
        kind: what it is in use as; None if it is free.
        holders: its holders, each a `Holder`; of a semaphore or a read-write lock a few hundred at most.
        waiters: its waiters in order, each a `Waiter`; a few hundred at most.
        waiting: the length of the whole line.
        fence: the last fence that was given under this name, if the server still knows it.
        nodes: on a quorum, each node's answer, and whether its restart guard keeps it from voting.
        holding: the number of all holders.

    Example:
        >>> with locks.lock("order:42"):
        ...     info = locks.inspect("order:42")
        >>> info.locked, info.holding, info.waiting
        (True, 1, 0)
    """

    name: str
    kind: Kind | None = None
    holders: tuple[Holder, ...] = ()
    waiters: tuple[Waiter, ...] = ()
    waiting: int = 0
    fence: int | None = None
    nodes: dict[str, str] | None = None
    holding: int = 0

    @property
    def locked(self) -> bool:
        return bool(self.holders)

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        return _plain(self)

    def __str__(self) -> str:
        from holdtight.base.showing import table

        return table(self)


class Wait(NamedTuple):
    """A thread or task (`who`, for people) waits for `name` as the owner `waiter`."""

    waiter: Owner
    name: str
    who: str = ""
    label: str | None = None


class Member(NamedTuple):
    """One member of a deadlock: it holds one lock (as `owner`) and waits for the next (as `waiter`)."""

    holds: str
    waits_for: str
    owner: str
    waiter: str
    host: str | None = None
    pid: int | None = None
    who: str = ""
    label: str | None = None

    def __str__(self) -> str:
        place = f"{self.host}, pid {self.pid}" if self.host else f"owner {self.owner[:11]}..."
        who = f", {self.who}" if self.who else ""
        label = f" ({self.label})" if self.label else ""
        return f"{place}{who}{label} holds {self.holds!r} and waits for {self.waits_for!r}"

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        return _plain(self)


class Grant(NamedTuple):
    """The server granted the lock. `sent` is when the answered request was sent, on the place's clock."""

    fence: int
    sent: float
    expired: Owner | None = None
    acks: int = 0
    """How many replicas have it; 0 if nobody asked them."""


class Denied(NamedTuple):
    """Another owner holds it; we are not in line. `look`: seconds until the next attempt, if the store has no line."""

    holder: Owner | None
    left: float
    look: float | None = None
    forced: bool = False
    """An operator has released by force what this owner held."""


class Queued(NamedTuple):
    """Another owner holds it; we are in line at `position` (1 is next) and should ask again in `look` seconds."""

    holder: Owner | None
    left: float
    position: int
    look: float


class Late:
    """The request arrived after its `not_after` and did nothing. The reply taught us the server's clock; ask again."""


class Withdrawn:
    """A withdrawal marker made the server refuse the request."""


class ForcedOut(Withdrawn):
    """A node of a quorum refuses this owner: an operator has released its lock by force."""


class Guarded(NamedTuple):
    """A node of a quorum that started recently and votes again in `left` seconds."""

    left: float


class QueueIsFull(NamedTuple):
    waiting: int


Outcome = Grant | Denied | Queued | Late | Withdrawn | QueueIsFull


def _plain(value: Any) -> dict[str, Any]:
    from holdtight.base.showing import plain

    found: dict[str, Any] = plain(value)
    return found
