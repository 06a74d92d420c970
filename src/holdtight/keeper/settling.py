"""Decides when a charge is due again after its request: at its next due time, after a pause, or at once."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from holdtight.base.clock import Clock
from holdtight.keeper.schedule import Charge, Lane, is_at
from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.keeper.connection import KeeperConnection

__all__ = ["RETRY_SHARE", "SHORTEST_RETRY", "Settling"]

RETRY_SHARE = 8
SHORTEST_RETRY = 0.01
STRAGGLERS_FIRST, STRAGGLERS_AGAIN, STRAGGLERS_END = 0.15, 1.0, 10.0
"""When, after a server was replaced, the keeper looks for leases that its own thread could not see at once."""


class Settling(ABC):
    """Part of the keeper. All but `charges`, `holds`, `hurry`, `hurry_from` and `leave` runs in the keeper's thread."""

    clock: Clock
    _away: dict[Charge, float]
    """Charges that were sent and not answered, each with the moment at which it was due."""
    _paused: dict[Charge, float]
    """Charges that are on no lane and pause before they are sent: they failed, or are due before the others of their
    lane. Each has the moment at which it is due, or was due before it failed: retries of late charges are late, too."""
    _armed: dict[Lane, None]
    _connections: dict[Place, "KeeperConnection"]

    @abstractmethod
    def add(self, charge: Charge, now: float) -> None: ...
    @abstractmethod
    def run_soon(self, what: Callable[[], None]) -> None: ...
    @abstractmethod
    def _later(self, when: float, what: Callable[[float], None]) -> None: ...
    @abstractmethod
    def _dispatch(self, charges: list[tuple[Charge, float]], now: float, *, late: bool = False) -> None: ...

    def charges(self, place: Place) -> Iterator[Charge]:
        """The charges on the lanes for this server, or for all servers of this cluster."""
        for lane in list(self._armed):
            yield from (charge for charge in list(lane.charges) if is_at(charge, place))

    def holds(self, place: Place) -> bool:
        """Whether a lease on this server is kept, or may be."""
        known = itertools.chain(self.charges(place), list(self._away), list(self._paused))
        return any(each.alive and each.deadline < float("inf") and is_at(each, place) for each in known)

    def settled(self, charge: Charge, *, well: bool | None, sent: float, now: float) -> None:
        """A charge was answered, or failed: schedules it for its next due time."""
        if well or not charge.alive:
            self._away.pop(charge, None)
            if charge.alive:
                self.add(charge, sent)  # not `now`: the ttl has been running since `sent`
        elif charge.deadline > now:
            pause = max(SHORTEST_RETRY, min(1.0, charge.interval / RETRY_SHARE))
            self._paused[charge] = self._away.get(charge, now)
            connection = self._connections.get(charge.place.of(charge))
            if connection is not None:
                connection.hindered_at = now
            self._later(min(now + pause, charge.deadline), lambda when: self._resume(charge, when))

    def _resume(self, charge: Charge, now: float) -> None:
        due = self._paused.pop(charge, None)
        if due is not None:  # otherwise `hurry` has sent it
            self._dispatch([(charge, due)], now)

    def redirect(self, charge: Charge, place: Place, before: Charge | None, now: float) -> None:
        """Another server of the cluster has what this charge is about: sends it there at once, behind `before`."""
        connection = self._connection_to(place)
        connection.enqueue_first(charge, now)
        if before is not None:
            connection.with_bodies.add(charge)
            connection.enqueue_first(before, now)

    @abstractmethod
    def _connection_to(self, place: Place) -> "KeeperConnection": ...

    def send(self, charges: list[Charge]) -> None:
        """Sends these next, in one write."""
        now = self.clock()
        self._dispatch([(charge, now) for charge in charges], now)

    def hurry(self, place: Place) -> None:
        """Asks at once about everything that is kept on this server: it was replaced, or could not be reached. Called
        from any thread."""
        self.run_soon(lambda: self._hurry(place))

    def _hurry(self, place: Place) -> None:
        connection, now = self._connections.get(place), self.clock()
        if connection is not None:
            connection.ready(now)  # if it was cut, it is noticed here, and not by everything that is sent below
            connection.begin_anew()
        asked = list[tuple[Charge, float]]()
        for known in (self._paused, *[lane.charges for lane in list(self._armed)]):
            for charge in [each for each in list(known) if is_at(each, place)]:
                due = known.pop(charge, None)
                if due is not None:
                    asked.append((charge, min(due, now)))
        self._dispatch(sorted(asked, key=lambda pair: pair[1]), now)

    def hurry_from(self, place: Place, since: float) -> None:
        """As `hurry`, for a server that was replaced at `since`, and looks for stragglers for a while: a grant of the
        old server may come to the keeper late, if its thread or its loop could not run."""
        self.hurry(place)
        self.run_soon(lambda: self._later(since + STRAGGLERS_FIRST, lambda now: self._find_stragglers(place, since)))

    def _find_stragglers(self, place: Place, since: float) -> None:
        """Asks about everything there that has not been confirmed after `since`."""
        now = self.clock()
        late = [(charge, min(self._paused.pop(charge), now)) for charge in list(self._paused) if is_at(charge, place)]
        for lane in list(self._armed):
            end = since + lane.interval  # a charge that is due before was granted or renewed before `since`
            for charge in list(lane.charges):
                due = lane.charges.get(charge, float("inf"))
                if end + lane.slack < due < float("inf"):
                    break
                if due < end and is_at(charge, place) and lane.charges.pop(charge, None) is not None:
                    late.append((charge, min(due, now)))
        self._dispatch(sorted(late, key=lambda pair: pair[1]), now)
        if now < since + STRAGGLERS_END:
            self._later(now + STRAGGLERS_AGAIN, lambda _: self._find_stragglers(place, since))

    def leave(self, place: Place) -> None:
        """This server of a cluster holds no slots any more: charges that wait to be sent there go to the servers that
        have their slots now. Called from any thread."""
        self.run_soon(lambda: self._leave(place))

    def _leave(self, place: Place) -> None:
        connection, now = self._connections.get(place), self.clock()
        if connection is not None:
            connection.ready(now)  # notices that it was cut: what was sent there is Unknown
            self._dispatch(connection.take_waiting(), now)
