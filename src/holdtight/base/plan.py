"""Theory of operation.

What a lock does is decided in pure code that neither blocks nor awaits. That code speaks in five
words:

Step   one request to one server, as data: the bytes before and after the sender's inbox, and how
       to read the reply. A verb that needs one round trip *is* a Step.
Fan    Steps to the nodes of a quorum, one for each, asked at once.
Park   sleep until a bell rings for this owner, or until a moment on the place's clock.
Plan   a generator that yields Steps, Fans and Parks, is sent what came of them, and returns the result.
Bell   what a Park is answered with when it was rung; None when the time came instead.

A *driver* (one blocking, one asyncio) runs a plan. Its duties:

- a Step goes out on the connection that carried the plan's earlier Steps as long as that lives: its
  inbox is the one the server rings, and the server sees the Steps in order;
- whatever goes wrong while a Step or a Park is under way is *thrown into* the plan at that point: a
  `LinkDown` of the transport as well as a KeyboardInterrupt or a cancellation. A plan is never just
  closed. Undo stands in the plan's own `except`, next to the deed;
- a Step with `undo=True` gets a second and is shielded from further cancellation. When the connection that
  carried the deed is gone, `otherwise` is handed to the keeper, which tries for a while, and the plan goes
  on at once;
- a Fan goes to all nodes at once and ends as soon as its outcome is certain, or its patience is over. A node that
  cannot be asked, or does not answer in time, is answered for by a `LinkDown`; replies that come later are drained. A
  Step with `undo=True` that a node did not get is handed to the keeper;
- a Park ends with a `LinkDown` when the client is closed, also if that was before: plans that wait ask whether it was;
- a bell that rings while a Step with `aside=True` is under way is kept for the next Park: the Step says nothing about
  what the bell is for. A Park whose time has come already asks whether anybody has rung.

Only a plan asks again: it alone knows that asking again is safe.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from holdtight.base.values import Owner

__all__ = ["Bell", "Fan", "LinkDown", "NoQuorum", "Park", "Plan", "ServerSaid", "Step", "Wish", "client_closed"]

UNDO_SECONDS = 1.0


class LinkDown(Exception):
    """A connection could not be made, broke, or stayed silent. `sent`: the request may have arrived."""

    def __init__(self, cause: str, *, sent: bool, stale: bool = False, silent: bool = False) -> None:
        super().__init__(cause)
        self.cause = cause
        self.sent = sent
        self.stale = stale
        """The connection had been lying idle: it may have died long ago, and one more try is fair."""
        self.silent = silent
        """Nothing broke: no answer came in time."""


def client_closed() -> LinkDown:
    """What a Park ends with when the client is closed; the plan then asks whether it was."""
    return LinkDown("the client was closed", sent=False)


class NoQuorum(LinkDown):
    """Too few nodes of a quorum can vote. `nodes` says why, one by one; `answered`: they would, if they could soon."""

    def __init__(self, nodes: dict[str, str], majority: int, *, answered: bool) -> None:
        said = "; ".join(f"{node}: {answer}" for node, answer in nodes.items())
        super().__init__(f"no majority ({majority} of {len(nodes)}): {said}", sent=False)
        self.nodes = nodes
        self.majority = majority
        self.answered = answered


class ServerSaid(Exception):
    """An error reply, with the server's own words."""

    @property
    def word(self) -> str:
        return str(self).split(" ", 1)[0]


class Step:
    """One request. `packed(inbox)` is what goes on the wire; `read(reply, sent)` makes a value of the answer."""

    __slots__ = ("after", "aside", "before", "limit", "otherwise", "patience", "read", "script", "undo")

    persistence = 5.0
    """For how long the keeper tries an undo that is left to it, before the ttl must do."""
    until = 0.0
    """What is undone may still arrive until then (the place's clock): the keeper undoes it again until that is past."""

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
        """What to send instead when the connection of the plan's earlier Steps is gone."""
        self.aside = aside
        """Asked by somebody who stands in line, about something else."""
        self.limit = limit
        """Of a request that takes something: until when it may arrive, in the server's ms and rounded up. A marker
        must outlive that."""

    def made_of(self, reply: Any, sent: float) -> Any:
        """As `read`; a reply that makes no sense is what a server said, not an error of ours."""
        try:
            return self.read(reply, sent)
        except Exception as error:
            return ServerSaid(f"{reply!r:.100} makes no sense ({type(error).__name__}: {error})")

    def packed(self, inbox: bytes) -> bytes:
        return self.before if self.after is None else self.before + inbox + self.after


class Fan(NamedTuple):
    """`steps` has one for each node in order, None for a node that is not asked. `certain` is given what each node has
    answered so far: a value, a LinkDown, a ServerSaid, or None if there is nothing yet. `read` makes the outcome of it.
    """

    steps: "Sequence[Step | None]"
    certain: Callable[[list[Any]], bool]
    read: Callable[[list[Any]], Any]
    patience: float
    ways: list[Any] | None = None
    """The driver leaves here by which connection each node was asked."""
    after: Sequence[Any] | None = None
    """The ways of an earlier Fan: a Step with an `otherwise` goes by the same way, and the other if that is gone."""
    undo: bool = False
    """To be seen through, as a Step with `undo=True` is."""


class Park(NamedTuple):
    """`touch(inbox)` is the heartbeat that keeps the owner's place in line meanwhile; None outside a line."""

    owner: Owner
    until: float
    touch: Callable[[bytes], bytes] | None = None


class Bell(NamedTuple):
    """`look` is None to look at once, or the number of seconds after which to look."""

    look: float | None = None


R = TypeVar("R")
Wish = Step | Fan | Park
Plan = Generator[Wish, Any, R]
