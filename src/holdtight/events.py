"""A typed stream of lock events; logs, metrics and traces build on it. `locks.events.subscribe(function)` listens.

Subscribers are plain functions. They are called inline in the thread that acquired or released, or in the
callback thread for what the keeper notices. Their errors are logged and change nothing. Other exceptions, such as
SystemExit, end the call that caused the event; a lock that it was acquiring is released first.
"""

from dataclasses import dataclass, field
from typing import Any

from holdtight.base.event_bus import Events
from holdtight.base.values import Kind, LossReason

__all__ = [
    "Acquired",
    "DeadlockFound",
    "Degraded",
    "Detached",
    "Downgraded",
    "Event",
    "Events",
    "Failed",
    "FailedOver",
    "Forced",
    "HeldLong",
    "KeeperLate",
    "Lost",
    "NodeDown",
    "NodeUp",
    "PreviousExpired",
    "Queued",
    "RefreshFailed",
    "ReleaseFailed",
    "Released",
    "RenewalFailed",
    "Renewed",
    "TimedOut",
    "Waited",
]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Event:
    """`name` is the lock's name, `owner` the acquisition's id. `kind` is what was asked for. `template` is that of the
    job (`synchronized`, `once`, `single_flight`), else the pattern of the profile that the name matches, else None:
    unlike names, templates are few, so that metrics can count by them.
    An event that concerns no lock has neither: `name` and `owner` are empty, `kind` and `template` None."""

    name: str
    owner: str
    kind: Kind | None = field(default=None, kw_only=True)
    template: str | None = field(default=None, kw_only=True)

    # Once for all events: each method that `dataclass` writes for a class costs every program a tenth of a millisecond.

    def __repr__(self) -> str:
        shown = (f"{each}={value!r}" for each, value in zip(self.__dataclass_fields__, self._values(), strict=True))
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event) or other.__class__ is not self.__class__:
            return False
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.__class__, self._values()))

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, each) for each in self.__dataclass_fields__)

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts; `event` is the name of the class."""
        from holdtight.base.showing import event_dict

        return event_dict(self)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Acquired(Event):
    """A lock was acquired, after `waited` seconds. `fence` is the grant's."""

    fence: int
    waited: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Queued(Event):
    """A caller waits in line, at `position` (1 is next; 0 on a quorum, which has no order), while `holder` (its owner,
    if known) has the lock. Emitted once for each acquisition."""

    position: int
    holder: str | None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Waited(Event):
    """A wait in line of `seconds` has ended; `acquired` says whether with the lock."""

    seconds: float
    acquired: bool


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TimedOut(Event):
    """A caller gave up after `waited` seconds, while `holder` (its owner, if known) held the lock."""

    waited: float
    holder: str | None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Failed(Event):
    """An acquisition ended without a lease, after `waited` seconds. Emitted once for each, after `TimedOut` and
    `DeadlockFound`. `reason` is "busy" (the caller did not wait), "timeout", "unavailable", "queue_full", "deadlock",
    "cancelled" (also by Ctrl-C), "not_permitted", "out_of_memory", "clock_drift" or "error". `owner` is empty if
    nothing was sent."""

    reason: str
    waited: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DeadlockFound(Event):
    """A wait of `waited` seconds was ended because it was part of a cycle. `cycle` has the names around it; the first
    is also the last."""

    waited: float
    cycle: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Renewed(Event):
    """A lease was renewed; `remaining` seconds are safe. `fence` is the grant's."""

    fence: int
    remaining: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RenewalFailed(Event):
    """A renewal was not answered, for the `cause` given. Not yet a loss: the lease is lost only at its deadline, in
    `remaining` seconds. `fence` is the grant's."""

    fence: int
    remaining: float
    cause: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class KeeperLate(Event):
    """This client's leases are renewed `late` seconds too late, more than a sixth of their ttl: other threads keep the
    keeper from running, or the server is slow. No lease is lost yet; at four sixths it is. The event concerns no single
    lock: `name` and `owner` are empty. Emitted once, until a whole ttl has passed without a late renewal."""

    late: float

    def __str__(self) -> str:
        return f"by {self.late:.2g} s: leases are renewed too late, and will be lost if that goes on"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Lost(Event):
    """A lease was lost, for a `reason`, after it was `held` for this many seconds. `fence` is the grant's."""

    fence: int
    reason: LossReason
    held: float = 0.0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Forced(Event):
    """This client has released a lock by force (`force_release`). `owner` and `fence` are those of the grant that was
    taken away; `by` and `reason` are what the operator gave. The holder, a client of its own, gets Lost."""

    fence: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeldLong(Event):
    """The lease has been `held` (seconds) for longer than `warn_after`: ten times its ttl, or what the profile says. A
    body that hangs keeps its lock for ever, because the keeper renews it all the same. Emitted once for each grant;
    `fence` is the grant's."""

    fence: int
    held: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RefreshFailed(Event):
    """A stale value of `single_flight` could not be refreshed, and stays for now. `error` is the exception, as
    "module.Type: text"."""

    error: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Released(Event):
    """A lock was released after it was `held` for this many seconds. `fence` is the grant's."""

    fence: int
    held: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Detached(Event):
    """The lease has ended here, after it was `held` for this many seconds, while the lock is still held for the client
    that adopts it. `fence` is the grant's."""

    fence: int
    held: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Degraded(Event):
    """A lease was given without the server, as `on_unavailable` allows. `how`: "local" excludes this process only,
    "open" excludes nobody. `cause` says why the server could not be reached."""

    how: str
    cause: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Downgraded(Event):
    """A writer continues as a reader, under a new `fence`, after it was `held` for writing for this many seconds."""

    fence: int
    held: float


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ReleaseFailed(Event):
    """A release did not reach the server, because of `cause`; the grant ends with its ttl. `fence` is the
    grant's."""

    fence: int
    cause: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PreviousExpired(Event):
    """The `previous` holder (its owner) never released: it crashed, hung or was cut off."""

    previous: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NodeDown(Event):
    """No connection to the server `node` could be made, for the `cause` given. Emitted once, until one can be made. The
    event concerns no lock."""

    node: str
    cause: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class NodeUp(Event):
    """A connection to the server `node` was made, after it was down. The event concerns no lock."""

    node: str


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class FailedOver(Event):
    """Another server has taken over: `by` has replaced `server`, as Sentinel or the cluster says. Both are URLs without
    credentials. The client has left the old one, and all its leases there are renewed on the new one at once: a
    `Lost` follows for each that the failover has lost. The event concerns no lock."""

    server: str
    by: str
