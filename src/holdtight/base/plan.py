"""Theory of operation.

Pure code that neither blocks nor awaits decides what a lock does. That code uses seven terms:

Step   one request to one server, as data: the bytes before and after the sender's inbox, and how
       to read the reply. An operation that needs one round trip *is* a Step.
Fan    Steps to the nodes of a quorum, one for each, sent at once.
Batch  Steps to one server, sent in one write. For requests that only read.
Acks   wait until replicas have every write that the server has confirmed to this plan; the result is their number.
Park   sleep until a bell rings for this owner, or until a moment on the place's clock.
Plan   a generator that yields Steps, Fans, Batches, Acks and Parks, receives their results, and returns its own.
Bell   the result of a Park that was rung; it is None when the time came instead.

A *driver* (one blocking, one asyncio) runs a plan. Its duties:

- It sends a Step on the connection that carried the plan's earlier Steps while that connection lives: the server
  rings that connection's inbox and sees the Steps in order.
- It *throws* every failure of a Step or a Park *into* the plan at that point: a `LinkDown` of the transport as well
  as a KeyboardInterrupt or a cancellation. It never just closes a plan. The plan undoes a request in its own `except`,
  next to the request.
- It gives a Step with `undo=True` one second and shields it from further cancellation. When the connection that
  carried the request is gone, it hands `otherwise` to the keeper, which tries for a while, and the plan continues at
  once.
- It sends a Fan to all nodes at once and ends it when the outcome is certain or the patience is over. A `LinkDown`
  stands in for a node that cannot be asked or does not answer in time; the driver drains later replies. It hands to
  the keeper each Step with `undo=True` that a node did not get.
- It counts Acks after every write that the server has confirmed to the plan: on the plan's own connection, or on
  another one to the same server after a later write. If the plan's connection breaks meanwhile, the driver throws a
  `LinkDown`: another server may have counted.
- It ends a Park with a `LinkDown` when the client is closed, also if it was closed earlier: waiting plans check that.
- It keeps a bell that rings during a Step with `aside=True` for the next Park: such a Step says nothing about the
  bell's lock. A Park whose time has already come still checks for a bell.

Only a plan repeats a request: only the plan knows that repeating is safe. There are two exceptions. After NOSCRIPT
nothing has run, so the connection sends the request again with the script's body. And the keeper repeats renewals and
deferred undos, which are safe to repeat.

The usual cases are *fast paths*: the lock objects send the request themselves and use neither a plan nor a driver,
which would cost more than the rest of the call. There are six kinds:

- `_attempt` and `_give_back_at_once` (sync/lock.py, sync/release.py, aio/lock.py): a free lock, and its release. The
  drop-in has its own (compat/sync.py, compat/aio.py).
- `_briefly` (sync/lock.py): a blocking caller that was queued parks once. If its bell rings before the first heartbeat
  is due, the caller confirms. asyncio code has no such path. Every other wait at a server runs in the loop of
  core/contend.py. Members of a cohort wait inside their process, without a server (clients/cohort_line.py).
- `_attempt` and `_resign_at_once` of quorum locks (sync/quorum_lock.py, aio/quorum_lock.py): one request to every node,
  decided from the raw replies of a majority.
- `_attempt` of locks with `acks` (sync/acked.py, aio/acked.py): the grant, and then the number of replicas that have
  it. Blocking code sends the count in the same write; asyncio code leaves it to the barrier (aio/barrier.py).
- `run`, `renew_all` and `release` of the lock service's agent (aio/agent.py): Steps that it sends itself, as an owner
  from outside has no lock object.
- `look` (sync/looking.py, aio/looking.py): reads the record or the stored value of a job. Any unusual reply goes to the
  plan, which asks again.

A fast path handles success and never loops. It passes almost any other outcome to the plan as the plan's first answer,
with the latest arrival of the request if its reply is missing; the plan continues from there. When a fast path is
interrupted or cancelled, the plan that withdraws the request runs (`abandon`, `Poll.undo`); an interrupted release goes
to the keeper, except the agent's: the owner from outside asks again.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from holdtight.base.values import Owner

__all__ = [
    "BROKEN_BEFORE_ACKS",
    "CLOCKS_DISAGREE",
    "CLOSED",
    "CLOSED_BY_SERVER",
    "LONGEST_PATIENCE",
    "NO_ANSWER",
    "NO_THREAD",
    "POLL_SECONDS",
    "REPLACED",
    "SLOT_GONE",
    "SLOT_LEFT",
    "SLOW_TO_CONNECT",
    "TOO_MANY_REPLIES",
    "Acks",
    "Batch",
    "Bell",
    "Elsewhere",
    "Fan",
    "LinkDown",
    "NoQuorum",
    "Park",
    "Plan",
    "ServerSaid",
    "Step",
    "TooFewAcks",
    "Wish",
    "client_closed",
]

UNDO_SECONDS = 1.0

# Causes of a LinkDown that several modules give.
CLOSED = "the connection is closed"
CLOSED_BY_SERVER = "the server closed the connection"
NO_ANSWER = "it did not answer in time"
NO_THREAD = "no thread to connect with"
REPLACED = "the server was replaced meanwhile"
SLOW_TO_CONNECT = "connecting took too long"
TOO_MANY_REPLIES = "it answered more than was asked"
CLOCKS_DISAGREE = "its clock and ours do not agree about the age of requests"
BROKEN_BEFORE_ACKS = "the connection broke before replicas could be asked"
SLOT_GONE = "the slot has left this server"
SLOT_LEFT = "its slot has left the server that granted it before replicas could be asked"


class LinkDown(Exception):
    """A connection could not be made, broke, or stayed silent. `sent`: the request may have arrived."""

    def __init__(self, cause: str, *, sent: bool, stale: bool = False, silent: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.sent = sent
        self.stale = stale
        """The connection had been idle and may have died long ago, or our map of a cluster may be old: one more try is
        justified."""
        self.silent = silent
        """Nothing broke, but no answer came in time."""


def client_closed() -> LinkDown:
    """Ends a Park when the client is closed; the plan then checks whether it was."""
    return LinkDown("the client was closed", sent=False)


class NoQuorum(LinkDown):
    """Too few nodes of a quorum can vote; `nodes` says why for each. `answered`: a majority can be reached."""

    def __init__(self, nodes: dict[str, str], majority: int, *, answered: bool) -> None:
        said = "; ".join(f"{node}: {answer}" for node, answer in nodes.items())
        super().__init__(f"no majority ({majority} of {len(nodes)}): {said}", sent=False)
        self.nodes = nodes
        self.majority = majority
        self.answered = answered


class Elsewhere(LinkDown):
    """The server of a Step aside did not answer. It is another one than that which rings the plan's bells: the inbox is
    not affected."""

    @classmethod
    def because(cls, down: LinkDown) -> "Elsewhere":
        return cls(down.cause, sent=down.sent, stale=down.stale, silent=down.silent)


class TooFewAcks(LinkDown):
    """The server has granted the lock, but too few replicas have the grant."""

    def __init__(self, count: int, needed: int) -> None:
        super().__init__(too_few(count, needed), sent=False)


def too_few(count: int, needed: int) -> str:
    return f"{count} of {needed} replicas acknowledged"


class ServerSaid(Exception):
    """An error reply, in the server's words."""

    @property
    def word(self) -> str:
        return str(self).split(" ", 1)[0]

    @property
    def lacks_right(self) -> bool:
        """Whether the user may not do this. A server's name may stand before what it said."""
        return self.word == "NOPERM" or ": NOPERM " in str(self)


LONGEST_PATIENCE = 2.0
"""The longest wait for any reply, in seconds."""
POLL_SECONDS = (0.02, 0.08)
"""The range from which a Park draws its pauses where no bell can ring."""


class Step:
    """One request. `packed(inbox)` goes on the wire; `read(reply, sent)` turns the reply into a value."""

    __slots__ = ("after", "aside", "before", "limit", "node", "otherwise", "patience", "read", "script", "undo")

    persistence = 5.0
    """Seconds for which the keeper tries a deferred undo before it leaves the rest to the ttl."""
    until = 0.0
    """The undone request may still arrive until then (place's clock): the keeper repeats the undo until it is past."""

    def __init__(
        self,
        before: bytes,
        after: bytes | None,
        read: Callable[[Any, float], Any],
        *,
        patience: float,
        undo: bool = False,
        otherwise: "Step | None" = None,
        aside: bool = False,
        limit: int = 0,
        script: object = None,
    ) -> None:
        self.before = before
        self.after = after
        self.read = read
        self.patience = patience
        self.script = script
        """Which script it runs: drivers of a quorum remember which ones a node knows."""
        self.undo = undo
        self.otherwise = otherwise
        """Sent instead when the connection of the plan's earlier Steps is gone."""
        self.aside = aside
        """Sent by an owner that waits in line, but not about the lock that it waits for."""
        self.node: Any = None
        """On a cluster: returns the server to ask, for a request that no key routes."""
        self.limit = limit
        """For a request that takes something: the latest arrival, in the server's ms, rounded up. A withdrawal marker
        must outlive it."""

    def made_of(self, reply: Any, sent: float) -> Any:
        """As `read`, but turns an unreadable reply into a ServerSaid: the server is at fault, not our code."""
        try:
            return self.read(reply, sent)
        except Exception as error:
            return ServerSaid(f"{reply!r:.100} makes no sense ({type(error).__name__}: {error})")

    def packed(self, inbox: bytes) -> bytes:
        return self.before if self.after is None else self.before + inbox + self.after


class Fan(NamedTuple):
    """`steps` has one entry per node in order, None for a node that is not asked. `certain` gets each node's answer so
    far: a value, a LinkDown, a ServerSaid, or None if there is none yet. `read` makes the outcome from the answers.
    """

    steps: Sequence[Step | None]
    certain: Callable[[list[Any]], bool]
    read: Callable[[list[Any]], Any]
    patience: float
    connections: list[Any] | None = None
    """The driver stores here the connection by which it asked each node."""
    after: Sequence[Any] | None = None
    """The `connections` of an earlier Fan: a Step with `otherwise` uses the same connection; if that is gone,
    `otherwise` is sent on another."""
    undo: bool = False
    """The driver completes it under shield, as it does a Step with `undo=True`."""


class Batch(NamedTuple):
    """The result has one entry for each Step: its value, or a ServerSaid."""

    steps: Sequence[Step]


class Acks(NamedTuple):
    """Ends when `needed` replicas have it, or after `seconds`."""

    needed: int
    seconds: float
    steps_for: Callable[[float], Sequence[Step]]
    node: Any = None
    """On a cluster: the server that has the name, whose replicas count. It must be the one that granted."""

    @property
    def steps(self) -> Sequence[Step]:
        """The Steps to send in one write. The last one counts; at least one of the others must change something."""
        return self.steps_for(self.seconds)

    @staticmethod
    def counted(values: Sequence[Any]) -> int:
        """Reads the number of replicas from the results of the steps. Raises ServerSaid if no step changed anything,
        and LinkDown if the slot has left its server on a cluster: the next try goes to another server."""
        *marked, count = values
        if isinstance(count, ServerSaid):
            raise count
        if not any(each is True for each in marked):
            said = next((each for each in marked if isinstance(each, ServerSaid)), ServerSaid("nothing was marked"))
            raise LinkDown(str(said), sent=False, stale=True) if said.word in ("MOVED", "ASK") else said
        return int(count)


class Park(NamedTuple):
    """`touch(inbox)` is the heartbeat that keeps the owner's place in line meanwhile; None if it is not in line."""

    owner: Owner
    until: float
    touch: Callable[[bytes], bytes] | None = None


class Bell(NamedTuple):
    """`look`: seconds after which to ask again; None means at once."""

    look: float | None = None


R = TypeVar("R")
Wish = Step | Fan | Batch | Acks | Park
Plan = Generator[Wish, Any, R]
