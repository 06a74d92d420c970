"""A typed stream of lock events; logs, metrics and traces build on it.

Subscribers are plain functions. They are called inline in the thread that acquired or released, or in the
callback thread for what the keeper notices. Their errors are logged and change nothing. Other exceptions, such as
SystemExit, end the call that caused the event; a lock that it was acquiring is released first. See
`base/event_bus.py`.
"""

from dataclasses import dataclass
from typing import Any

from holdtight.base.event_bus import Events
from holdtight.base.values import LossReason

__all__ = [
    "Acquired",
    "DeadlockFound",
    "Degraded",
    "Detached",
    "Downgraded",
    "Event",
    "Events",
    "HeldLong",
    "KeeperLate",
    "Lost",
    "PreviousExpired",
    "ReleaseFailed",
    "Released",
    "RenewalFailed",
    "Renewed",
    "TimedOut",
    "Waited",
]


@dataclass(frozen=True, slots=True)
class Event:
    """`name` is the lock's name, `owner` the acquisition's id."""

    name: str
    owner: str

    def as_dict(self) -> dict[str, Any]:
        """The fields, as `json.dumps` takes them; `event` is the name of the class."""
        from holdtight.base.showing import event_dict

        return event_dict(self)


@dataclass(frozen=True, slots=True)
class Acquired(Event):
    fence: int
    waited: float


@dataclass(frozen=True, slots=True)
class Waited(Event):
    """A wait has ended, with or without the lock."""

    seconds: float
    acquired: bool


@dataclass(frozen=True, slots=True)
class TimedOut(Event):
    waited: float
    holder: str | None


@dataclass(frozen=True, slots=True)
class DeadlockFound(Event):
    """A wait was ended because it was part of a cycle. `cycle` has the names around it; the first is also the last."""

    waited: float
    cycle: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Renewed(Event):
    fence: int
    remaining: float


@dataclass(frozen=True, slots=True)
class RenewalFailed(Event):
    """Not yet a loss: the lease is lost only at its deadline."""

    fence: int
    remaining: float
    cause: str


@dataclass(frozen=True, slots=True)
class KeeperLate(Event):
    """This client's leases are renewed `late` seconds too late, more than a sixth of their ttl: other threads keep the
    keeper from running, or the server is slow. No lease is lost yet; at four sixths it is. The event concerns no single
    lock: `name` and `owner` are empty. Emitted once, until a whole ttl has passed without a late renewal."""

    late: float

    def __str__(self) -> str:
        return f"by {self.late:.2g} s: leases are renewed too late, and will be lost if that goes on"


@dataclass(frozen=True, slots=True)
class Lost(Event):
    """The lease is lost, `held` seconds after its grant."""

    fence: int
    reason: LossReason
    held: float = 0.0


@dataclass(frozen=True, slots=True)
class HeldLong(Event):
    """The lease has been renewed for longer than `warn_after`: ten times its ttl, or what the profile says. A body that
    hangs keeps its lock for ever, because the keeper renews it all the same. Emitted once for each grant."""

    fence: int
    held: float


@dataclass(frozen=True, slots=True)
class Released(Event):
    fence: int
    held: float


@dataclass(frozen=True, slots=True)
class Detached(Event):
    """The lease has ended here while the lock is still held, for the client that adopts it."""

    fence: int
    held: float


@dataclass(frozen=True, slots=True)
class Degraded(Event):
    """A lease was given without the server, as `on_unavailable` allows: `local` in this process only, or `open`."""

    how: str
    cause: str


@dataclass(frozen=True, slots=True)
class Downgraded(Event):
    """A writer continues as a reader, under a new fence."""

    fence: int
    held: float


@dataclass(frozen=True, slots=True)
class ReleaseFailed(Event):
    """The server could not be told; the grant ends with its ttl."""

    fence: int
    cause: str


@dataclass(frozen=True, slots=True)
class PreviousExpired(Event):
    """The previous holder never released: it crashed, hung or was cut off."""

    previous: str
