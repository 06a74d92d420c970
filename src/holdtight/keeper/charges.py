"""The keeper's charges other than tenures: a waiter's place in line, a check after a hand-over, a deferred undo, and
the requests of a keeper connection itself."""

from collections.abc import Callable
from typing import Any, Protocol

from holdtight.base.plan import Step
from holdtight.base.values import MORE_TO_SWEEP, Claim, Denied, Owner
from holdtight.stores.boundary import Place
from holdtight.stores.times import CLAIM_MS, HEARTBEAT_MS

__all__ = [
    "SILENCE",
    "TOUCH_SECONDS",
    "AlarmRequest",
    "DeferredUndo",
    "HandedOn",
    "Probe",
    "RecordRequest",
    "StandingInLine",
    "look_after",
]

TOUCH_SECONDS = HEARTBEAT_MS / 1000 / 3
CLAIM_SECONDS = CLAIM_MS / 1000
SILENCE = 2.0
"""How long a server may stay silent."""


class StandingInLine:
    """Keeps a waiter's entry alive. A touch never grants, so a waiter with a blocked loop gets no lock unnoticed."""

    interval = TOUCH_SECONDS
    deadline = float("inf")

    def __init__(
        self, place: Place, touch: Callable[[bytes], bytes], inbox: bytes, gone: Callable[[], bool] | None = None
    ) -> None:
        self.place = place
        self.alive = True
        self._touch = touch
        self._inbox = inbox
        self._gone = gone
        """Whether nothing can wait there any more: its event loop was closed."""

    def request(self, now: float) -> bytes | None:
        if self._gone is not None and self._gone():
            self.alive = False
        return self._touch(self._inbox) if self.alive else None

    def answered(self, reply: Any, sent: float) -> bool:
        return not isinstance(reply, Exception)

    def unanswered(self, cause: str) -> None: ...

    def overdue(self) -> None: ...

    def late(self, by: float) -> None: ...


class DeferredUndo:
    """A Step that its driver could not complete: the keeper tries it for a while, then leaves it to the ttl."""

    interval = 0.4

    def __init__(self, place: Place, step: Step, ttl: float = 0.0) -> None:
        """`ttl` is that of the grant, if it may be another one than that of its lock."""
        self.place = place
        self.alive = True
        lasting = ttl if place.undoes_for_a_ttl else 0.0
        self.deadline = max(place.clock(), step.until) + max(step.persistence, lasting)
        self._step = step

    def request(self, now: float) -> bytes | None:
        return self._step.packed(b"") if self.alive else None

    def answered(self, reply: Any, sent: float) -> bool:
        if isinstance(reply, Exception):
            return False
        self.alive = self.place.clock() < self._step.until
        return True

    def unanswered(self, cause: str) -> None: ...

    def overdue(self) -> None:
        self.alive = False

    def late(self, by: float) -> None: ...


class RecordRequest:
    """A request of a keeper connection itself; nothing waits for its reply."""

    interval = SILENCE
    deadline = float("inf")
    alive = False

    def __init__(self, place: Place, request: bytes) -> None:
        self.place = place
        self._request = request

    def request(self, now: float) -> bytes | None:
        return self._request

    def answered(self, reply: Any, sent: float) -> bool:
        return True

    def unanswered(self, cause: str) -> None: ...

    def overdue(self) -> None: ...

    def late(self, by: float) -> None: ...


class AlarmRequest(RecordRequest):
    """Subscribes to the client's alarm. A message answers it, or an error reply if the user has no right to it."""


class Probe(RecordRequest):
    """Asks a server whether it answers, and still serves what is kept there."""


class Passing(Protocol):
    """A name that was handed over, as the keeper checks it."""

    @property
    def claim(self) -> Claim: ...

    def sweep_step(self, owner: Owner) -> Step: ...
    def read_release(self, reply: Any) -> int | Denied | None: ...


class HandedOn:
    """After the claim window, checks that the waiter confirmed; if not, wakes the next one. The server leaves this to
    the client that hands over if the waiter gave a sign of life just before. That is always so for a busy name, but
    such a name is handed over again before the check is due, so nothing is sent."""

    interval = CLAIM_SECONDS
    deadline = float("inf")

    def __init__(self, place: Place, name: Passing, owner: Owner, since: float) -> None:
        self.place = place
        self.alive = True
        self.since = since
        self._name = name
        self._owner = owner

    def look(self, now: float) -> None:
        keeper, due = self.place.runtime.keeper, self.since + self.interval
        if not self.alive:
            return
        if now < due:  # it has been handed over again
            keeper.at(due, self.look)
        else:
            keeper.ask(self)

    def request(self, now: float) -> bytes | None:
        return self._name.sweep_step(self._owner).packed(b"") if self.alive else None

    def answered(self, reply: Any, sent: float) -> bool:
        if self._name.read_release(reply) == MORE_TO_SWEEP:
            return False  # more dead waiters than one request clears: repeat soon
        self._end(sent)
        return True

    def unanswered(self, cause: str) -> None:
        """Leaves it to the waiters' heartbeats, which notice a little later."""
        self._end(self.since)

    def overdue(self) -> None: ...

    def late(self, by: float) -> None: ...

    def _end(self, looked: float) -> None:
        self.alive = False
        self.place.handed_on.pop(self._name.claim.name, None)
        if self.since > looked:  # handed over again since the request was sent
            look_after(self.place, self._name, self._owner, self.since)


def look_after(place: Place, name: Passing, owner: Owner, since: float) -> None:
    """Registers that `owner` handed the name over at `since`. One check serves all hand-overs of a name."""
    found = place.handed_on.get(name.claim.name)
    if found is not None:
        found.since = since
        if found.alive:
            return
    place.handed_on[name.claim.name] = charge = HandedOn(place, name, owner, since)
    place.runtime.keeper.at(since + charge.interval, charge.look)
