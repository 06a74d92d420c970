"""Counts replicas for the keeper, on a connection of its own: no renewal waits behind a WAIT.

A renewal that the server has confirmed counts only once replicas have it, if the client asks for `acks`. Until then its
charge waits here. A round is one mark and one WAIT (see stores/redis/acks.py), and one is under way at a time: it
counts for all charges that were answered before it left. Everything here runs in the keeper's thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from holdtight.base.callbacks import report
from holdtight.base.plan import BROKEN_BEFORE_ACKS, SLOT_LEFT, Acks, LinkDown, ServerSaid, Step
from holdtight.core.acks import longest_wait
from holdtight.keeper.schedule import Charge
from holdtight.stores.boundary import Link, Place
from holdtight.stores.client import Client
from holdtight.stores.times import LOOK_SECONDS

if TYPE_CHECKING:
    from holdtight.keeper.keeper import Keeper

__all__ = ["Barrier", "Beside"]


class Beside(Place):
    """A second connection to the server of a place."""

    def __init__(self, of: Place) -> None:
        client = Client(of.client.namespace, of.clock)
        client.known = False  # the keeper's other connection keeps the record
        super().__init__(client, of.runtime, of.display)
        self._of = of

    @property
    def whose(self) -> Place:
        return self._of

    def doubt(self, said: str) -> bool:
        return self._of.doubt(said)

    def broken(self) -> None:
        self._of.broken()

    def open(self, timeout: float) -> Link:
        return self._of.open(timeout)


class Renewing(Charge, Protocol):
    """A charge whose renewal replicas must have."""

    @property
    def name(self) -> str: ...

    def acknowledged(self, seen: int | str, sent: float) -> bool:
        """`seen`: how many replicas have it, or why that is not known. True if it counts."""
        ...


class Joined(NamedTuple):
    charge: Renewing
    sent: float
    home: Place
    """Where its next request would have gone: on a cluster that changes when its slot moves."""


class Barrier:
    def __init__(self, place: Place, keeper: "Keeper") -> None:
        self.beside = Beside(place)
        self._place = place
        self._keeper = keeper
        self._joined: list[Joined] = []
        self._round: Round | None = None

    @property
    def busy(self) -> bool:
        return any(each.charge.alive for each in (*self._joined, *(self._round.joined if self._round else ())))

    def join(self, charge: Charge, sent: float) -> None:
        """This charge was answered; replicas must have it too."""
        self._joined.append(Joined(cast(Renewing, charge), sent, charge.place.of(charge)))
        if self._round is None and len(self._joined) == 1:
            self._keeper.run_soon(self._begin)  # the other answers of this turn come along

    def break_off(self) -> None:
        """The connection that answered them is gone: another server may count now."""
        joined, self._joined = self._joined, []
        if self._round is not None:
            joined += self._round.joined
            self._round.joined = []
        self._settle(joined, BROKEN_BEFORE_ACKS)

    def _begin(self) -> None:
        joined, self._joined = [each for each in self._joined if each.charge.alive], []
        if self._round is not None or not joined:
            self._joined = joined
            return
        seconds = longest_wait(3 * min(each.charge.interval for each in joined))
        acks: Acks = self._place.acks.wish(joined[0].charge.name, seconds)
        self._round = Round(self.beside, joined, acks, self._ended)
        self._keeper.send(self._round.requests())

    def _ended(self, ended: "Round", seen: int | str) -> None:
        # Later: the end of the other connection may be among what this turn still has to read.
        self._keeper.run_soon(lambda: self._conclude(ended, seen))

    def _conclude(self, ended: "Round", seen: int | str) -> None:
        self._round = None
        self._settle(ended.joined, seen)
        self._begin()

    def _settle(self, joined: list[Joined], seen: int | str) -> None:
        now = self._keeper.clock()
        for charge, sent, home in joined:
            well = False
            if charge.alive:
                try:
                    well = charge.acknowledged(seen if charge.place.of(charge) is home else SLOT_LEFT, sent)
                except Exception as error:  # one charge in a bad state must not harm the others
                    report("a charge of the keeper's failed: %r", error, charge)
            self._keeper.settled(charge, well=well, sent=sent, now=now)


class Request:
    """One request of a round."""

    deadline = float("inf")

    def __init__(self, place: Place, step: Step, answer: Callable[[Any], None], seconds: float) -> None:
        self.place = place
        self.alive = True
        self.interval = seconds + LOOK_SECONDS
        self._step = step
        self._answer = answer

    def request(self, now: float) -> bytes | None:
        return self._step.packed(b"") if self.alive else None

    def answered(self, reply: Any, sent: float) -> bool | None:
        self.alive = False
        self._answer(ServerSaid(str(reply)) if isinstance(reply, Exception) else self._step.made_of(reply, sent))
        return True

    def unanswered(self, cause: str) -> None:
        self.alive = False
        self._answer(cause)

    def overdue(self) -> None: ...

    def late(self, by: float) -> None: ...


class Round:
    def __init__(
        self, place: Place, joined: list[Joined], acks: Acks, ended: "Callable[[Round, int | str], None]"
    ) -> None:
        self.joined = joined
        self._place = place
        self._acks = acks
        self._steps = acks.steps
        self._ended = ended
        self._values: list[Any] = []

    def requests(self) -> list[Charge]:
        return [Request(self._place, step, self._answer, self._acks.seconds) for step in self._steps]

    def _answer(self, value: Any) -> None:
        """A value, a ServerSaid, or the cause of a failure."""
        self._values.append(value)
        if len(self._values) < len(self._steps):
            return
        failure = next((each for each in self._values if isinstance(each, str)), None)
        try:
            self._ended(self, Acks.counted(self._values) if failure is None else failure)
        except (LinkDown, ServerSaid) as failed:
            self._ended(self, str(failed))
