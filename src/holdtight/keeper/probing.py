"""A keeper connection asks a server of a cluster something cheap while leases are kept there and nothing else is asked.

Nothing tells a client that a server hangs, or that a replica has taken over in good order: the old master keeps its
connections. A holder would learn of it at its next renewal, which may be due in many seconds (decision 0022).
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from holdtight.keeper.charges import Probe
from holdtight.keeper.schedule import is_at
from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.keeper.keeper import Charge, Keeper

__all__ = ["Probing"]


class Probing(ABC):
    """Part of a keeper connection."""

    place: Place
    _keeper: "Keeper"
    _sent: Any
    _retired = False
    _heard = 0.0
    """When the server answered last."""
    _subject: "Charge | None" = None
    """The lease that was asked about last."""

    @abstractmethod
    def enqueue_first(self, charge: "Charge", now: float) -> None: ...

    def begin_probing(self) -> None:
        if self.place.probe_seconds:
            self._keeper.at(self._keeper.clock() + self.place.probe_seconds, self._probe)

    def _probe(self, now: float) -> None:
        if self._retired:
            return
        if not self._sent and now - self._heard >= self.place.probe_seconds:
            request = self._question()
            if request is not None:
                self.enqueue_first(Probe(self.place, request), now)
        self._keeper.at(now + self.place.probe_seconds, self._probe)

    def _question(self) -> bytes | None:
        """About any lease that is kept there."""
        subject = self._subject
        if subject is None or not subject.alive or not is_at(subject, self.place):
            kept = (each for each in self._keeper.charges(self.place) if each.deadline < float("inf"))
            subject = self._subject = next(kept, None)
        return None if subject is None else self.place.probe(subject)
