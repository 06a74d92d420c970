"""The store boundary: what the layers above know of the servers that keep locks.

Above it: claims, owners, grants, fences, verdicts, holders. Below it: bytes, keys, scripts, replies, connections.

- A `Place` is the server that keeps a client's locks; it opens links to it. `stores/opening.py` makes the place that a
  target asks for: a server behind a network or a socket (`stores/redis/single.py`), the master that Sentinel names
  (`stores/redis/sentinel.py`), the servers of a cluster (`stores/redis/cluster.py`), the nodes of a quorum
  (`stores/redis/quorum_place.py`), or a store in this process (`stores/memory/place.py`).
- A `Store` prepares claims; a `Prepared` claim makes requests as Steps and reads their replies.
- A `Link` is one connection.

The layers above treat all places alike, with two exceptions. An `in_process` place needs no thread to connect, and
has nothing to poll. A place's `topology` chooses the modules that acquire and release there.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from holdtight.base.clock import Drift
from holdtight.base.plan import Bell, LinkDown, ServerSaid, Step, TooFewAcks
from holdtight.base.values import Claim, Denied, Kind, LossReason, Outcome, Owner, Verdict
from holdtight.errors import LockError, Unavailable
from holdtight.stores.client import Client

if TYPE_CHECKING:
    from holdtight.base.operations import Around
    from holdtight.base.runtime import Runtime

__all__ = ["Link", "Pausing", "Place", "Prepared", "SessionEntry", "Shape", "Store", "Topology"]

Topology = Literal["server", "cluster", "quorum"]


class SessionEntry(NamedTuple):
    """What an owner in a session of the lock service asked for (`state` "w"), holds ("h"), or has lost, and why ("e"
    expired, "t" taken, "f" forced)."""

    owner: Owner
    state: str
    kind: Kind
    n: int
    fence: int
    name: str


class Prepared(Protocol):
    """One claim on one store: makes its requests and reads their replies.

    The fast paths of sync/lock.py and aio/lock.py use `attempt`, `ask` and `release`, which are the constant beginnings
    of the usual requests, or None until they are used a second time. All other code uses Steps.
    """

    attempt: bytes | None
    ask: bytes | None
    release: bytes | None
    wanted: bool

    @property
    def home(self) -> int | None:
        """The slot, on a cluster."""
        ...

    @property
    def name(self) -> str: ...
    @property
    def claim(self) -> Claim: ...
    @property
    def max_waiters(self) -> int: ...
    @property
    def valid(self) -> float: ...
    @property
    def patience(self) -> float: ...
    @property
    def store(self) -> "Store": ...

    def pack_attempt(self, *, queue: bool) -> bytes: ...
    def pack_release(self) -> bytes: ...
    def release_by(self, owner: Owner, inbox_word: bytes) -> bytes: ...
    def attempt_step(self, owner: Owner, *, now: float, patience: float, queue: bool) -> Step: ...
    def release_step(self, owner: Owner) -> Step: ...
    def marker_step(self, owner: Owner, marker: int) -> Step: ...
    def withdraw_step(self, owner: Owner, *, marker: int = 0, otherwise: Step | None = None) -> Step: ...
    def sweep_step(self, owner: Owner) -> Step: ...
    def adopt_step(self, old: Owner, owner: Owner, *, now: float) -> Step: ...
    def downgrade_step(self, owner: Owner, *, now: float, marker: bytes = b"") -> Step: ...
    def inspect_step(self, most: int = 500) -> Step: ...
    def holder_step(self, holder: Owner, left: float) -> Step: ...
    def renew_request(self, owner: Owner, now: float, ttl: float, patience: float) -> bytes: ...
    def set_request(
        self, owner: Owner, now: float, ttl: float, patience: float, ordinal: int, marker: int
    ) -> bytes: ...
    def touch_request(self, owner: Owner, inbox: bytes) -> bytes: ...
    def read_release(self, reply: Any) -> int | Denied | None: ...
    def read_renewal(self, reply: Any, sent: float) -> Verdict | LossReason: ...
    def arrival_limit(self, now: float, patience: float) -> int: ...
    def is_passing(self, said: ServerSaid) -> bool: ...
    def meaning(self, said: ServerSaid) -> LockError: ...


class Shape(Protocol):
    """What all claims with the same options have in common, whatever their names."""

    claim: Claim
    valid: float

    @property
    def max_waiters(self) -> int: ...
    def prepare(self, name: str) -> Any: ...


class Store(Protocol):
    """One namespace in one place."""

    client: Client
    drift: Drift

    @property
    def waits(self) -> Any:
        """The requests behind core/deadlock.py."""
        ...

    def shape(self, claim: Claim) -> "Shape": ...
    def prepare(self, claim: Claim) -> Any: ...
    def several(self, parts: list[Any]) -> Any:
        """All parts in one request: see core/multi.py."""
        ...

    def marker_text(self, ordinal: int, marker: int) -> bytes: ...
    def records_step(self, owners: list[Owner], holding: int = 0) -> Step: ...
    def read_attempt(self, reply: Any, sent: float) -> Outcome: ...
    def has_not_run(self, reply: Any) -> bool:
        """Whether this error reply says that the server lacks the script: the same request may be sent again."""
        ...

    def removal_request(self) -> bytes:
        """Removes the client's record."""
        ...

    def meaning(self, said: ServerSaid, name: str | None) -> LockError: ...


class Link(Protocol):
    """One connection after its handshake, used by one thread at a time. A request that fails raises LinkDown."""

    owed: int
    """Number of requests whose replies have not been read. A link with unread replies is never shared."""
    inbox: bytes
    inbox_word: bytes
    """The inbox encoded as a request argument; empty if this link receives no bells."""

    def call(self, request: bytes, timeout: float) -> Any: ...
    def call_aside(self, request: bytes, timeout: float) -> Any:
        """Like `call`, for a waiter in the queue: bells that arrive meanwhile are kept for the next `park`."""
        ...

    def call_all(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        """Sends all requests in one write, and reads their replies."""
        ...

    def look_out(self) -> None:
        """Allows `call` to spin for a moment before it blocks."""
        ...

    def set_timeout(self, timeout: float) -> None: ...
    def send(self, request: bytes) -> None: ...
    def reply(self) -> Any: ...
    def park(self, owner: Owner, until: float) -> Bell | None: ...
    def wake(self) -> None:
        """Called by another thread: ends the current `park`, or the next one. The link is unusable afterwards."""
        ...

    # Non-blocking use, for the keeper.

    def fileno(self) -> int:
        """The descriptor to poll; -1 for a link whose replies are ready at once."""
        ...

    def stop_blocking(self) -> None: ...
    def heed(self, channel: bytes, hear: Callable[[bytes], object]) -> bytes:
        """Listens to another channel. Returns the request that the caller must send for that; b"" if there is none and
        `hear` gets the messages."""
        ...

    def push_out(self, data: bytes) -> bytes: ...
    def pump(self) -> list[Any]: ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """In a forked child: drops the connection without sending anything."""
        ...


class Pausing(Protocol):
    def nudge(self) -> None:
        """Ends all pauses. Called in any thread."""
        ...


class Place:
    """One server as one client of this process uses it, and the clock that applies there."""

    in_process = False
    """True if the store is in this process: links open and answer without waiting."""
    topology: Topology = "server"
    """Chooses the modules above that acquire and release here."""
    probe_seconds = 0.0
    """After how long a silence the keeper asks the server something, while leases are kept there; 0 for never."""
    one_step = True
    """True if one request can take several names."""
    one_release = True
    """True if one request can release a grant."""
    reads_by_any_link = True
    """True if every idle link can carry any request that only reads, and one round trip of its own is worth saving."""
    undoes_for_a_ttl = False
    """True if the server of a name may be unknown for long, so that the keeper tries to undo a grant for its ttl."""
    store: Any
    """The `Store` of this place; a quorum has its own kind."""
    acks: Any = None
    """How replicas are asked whether they have a grant (core.acks.Acknowledging); None if they are not."""

    def __init__(self, client: Client, runtime: "Runtime", display: str) -> None:
        self.client = client
        self.runtime = runtime
        self.clock = runtime.clock
        """The clock of this client's leases and waits. The keeper in `runtime` uses the same one."""
        self.display = display
        self.refreshers: list[Callable[[], None]] = []
        """Checks to run from time to time while this client is in use."""
        self.spare: Callable[[], Link | None] = lambda: None
        """Returns an idle link, if there is one; the caller may keep it."""
        self.up: bool | None = None
        """Whether the last connection could be made; None before the first."""
        self.trouble = ""
        """Why the last connection could not be made, if it could not."""
        self.pausing: weakref.WeakSet[Pausing] = weakref.WeakSet()
        """The transports of this client: their callers may pause before they try again."""
        self.tell_failover: Callable[[str, str], None] = lambda server, by: None
        """Called with the server that has been replaced, and the one that replaces it."""
        self.tell_node: Callable[[str, str | None], None] = lambda node, cause: None
        """Called with `display` when the server goes down, with the cause, and when it is up again (None)."""
        self.handed_on: dict[str, Any] = {}
        """Names that were recently handed to a waiter, each with the object that checks the hand-over (HandedOn)."""

    def renew_identity(self) -> None:
        """In a forked child: replaces the identity inherited from the parent."""
        self.client.renew_identity()
        self.handed_on = {}

    def check_supports(self, what: str, name: str | None) -> None:
        """Raises NotSupported if this place cannot do `what`: see refusals.NOT_ON_A_QUORUM and NOT_ON_A_CLUSTER."""

    def meaning(self, error: LinkDown | ServerSaid, name: str | None) -> LockError:
        """Converts a transport error into a public exception."""
        if isinstance(error, TooFewAcks):
            return Unavailable.unacknowledged(name, self.display, error.cause)
        if isinstance(error, LinkDown):
            return Unavailable.because(name, self.display, error.cause)
        return cast(LockError, self.store.meaning(error, name))

    @property
    def survey(self) -> Any:
        """Requests that look at the whole namespace, or act on it from outside. All stores take the same."""
        from holdtight.stores.redis.survey import Survey

        return Survey(self.client.namespace)

    def made(self) -> None:
        """A connection was made."""
        before, self.up = self.up, True
        self.trouble = ""
        if before is False:
            self.tell_node(self.display, None)

    def not_made(self, cause: str) -> None:
        """A connection could not be made."""
        before, self.up = self.up, False
        self.trouble = cause
        if before is not False:
            self.tell_node(self.display, cause)

    @property
    def healthy(self) -> bool | None:
        """Whether the last connection could be made; None before the first."""
        return self.up

    @property
    def forcing(self) -> Any:
        """Requests that release locks by force, and read the records of it."""
        from holdtight.stores.redis.forcing import Forcing

        return Forcing(self.client)

    @property
    def acting(self) -> Any:
        """Requests for owners from outside, which name the fence or the connection that they mean."""
        from holdtight.stores.redis.acting import Acting

        return Acting(self.store)

    @property
    def sessions(self) -> Any:
        """Requests about the sessions of the lock service."""
        from holdtight.stores.redis.sessions import Sessions

        return Sessions(self.client.namespace)

    @property
    def history(self) -> Any:
        """Requests about the history of the lock service."""
        from holdtight.stores.redis.history import History

        return History(self.client.namespace)

    @property
    def examining(self) -> Any:
        """The requests behind `doctor`; None for a place that has nothing to be examined."""
        if self.in_process:
            return None
        from holdtight.stores.redis.examining import Examining

        return Examining(self.client)

    def records(self, name: str, occurrence: str) -> Any:
        """Requests about the records of a job: see recipes/once.py."""
        from holdtight.stores.redis.records import Records

        return Records(self.client, name, occurrence)

    def proclaim_step(self, name: str, owner: Owner, label: str) -> Step:
        """Changes the label of a grant."""
        from holdtight.stores.redis.proclaiming import proclaim_step

        return proclaim_step(self.client, name, owner, label, self.clock())

    def flight_values(self, name: str) -> Any:
        """Requests about what a flight has computed: see recipes/flights.py."""
        from holdtight.stores.redis.flights import FlightValues

        return FlightValues(self.client, name)

    @property
    def server(self) -> str:
        """The server that has the locks at this moment, as `display` shows it."""
        return self.display

    def of(self, charge: Any) -> "Place":
        """The place that the keeper sends this charge's request to: on a cluster, that of the slot's server now."""
        return self

    @property
    def record_place(self) -> "Place":
        """The place that has the client's record."""
        return self

    def redirected(self, charge: Any, said: str) -> "tuple[Place, bytes] | None":
        """An error reply to a charge: where to ask instead, at once, and the request to send before; None if not."""
        return None

    def probe(self, charge: Any) -> bytes | None:
        """A cheap request about what the keeper keeps, which only the server in charge of it answers."""
        return None

    @property
    def whose(self) -> "Place":
        """The place whose leases need the keeper's connection to this one."""
        return self

    def doubt(self, said: str) -> bool:
        """A server answered with an error. True if its connection must be closed."""
        return False

    def share_events(self, events: Any) -> None:
        """The client shares the events of another one."""

    def broken(self) -> None:
        """A connection of the keeper's broke, or stayed silent."""

    def leave(self) -> None:
        """The client is closed, or was dropped. Leases that it still has are kept."""

    @property
    def record_is_idle(self) -> bool:
        """Whether no lock of the client needs its record any more. For a closed client."""
        return not (self.client.detached or self.runtime.keeper.holds(self))

    def look_around(self) -> "Around | None":
        """Begins to look at the servers around this one, in other threads; None if there are none to look at."""
        return None

    def keeps(self, link: Link) -> None:
        """Called when the keeper starts to send its requests on this link."""

    def open(self, timeout: float) -> Link:
        """Opens a new link. May block; raises LinkDown or ServerSaid if it cannot connect in time."""
        raise NotImplementedError
