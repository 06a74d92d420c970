"""What becomes of a charge after its request: its next due time, a pause after a failure, or a request at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from holdtight.base.clock import Clock
from holdtight.keeper.connection import KeeperConnection
from holdtight.keeper.schedule import Charge, Lane
from holdtight.stores.boundary import Place

__all__ = ["RETRY_SHARE", "SHORTEST_RETRY", "Settling"]

RETRY_SHARE = 8
SHORTEST_RETRY = 0.01


class Settling(ABC):
    """Part of the keeper. All but `hurry` runs in the keeper's thread."""

    clock: Clock
    _away: set[Charge]
    _paused: set[Charge]
    """Charges that failed and pause before they are sent again."""
    _armed: dict[Lane, None]
    _connections: dict[Place, KeeperConnection]

    @abstractmethod
    def add(self, charge: Charge, now: float) -> None: ...
    @abstractmethod
    def run_soon(self, what: Callable[[], None]) -> None: ...
    @abstractmethod
    def _later(self, when: float, what: Callable[[float], None]) -> None: ...
    @abstractmethod
    def _dispatch(self, charges: list[tuple[Charge, float]], now: float, *, late: bool = False) -> None: ...

    def settled(self, charge: Charge, *, well: bool, sent: float, now: float) -> None:
        """A charge was answered, or failed: schedules it for its next due time."""
        if well or not charge.alive:
            self._away.discard(charge)
            if charge.alive:
                self.add(charge, sent)  # not `now`: the ttl has been running since `sent`
        elif charge.deadline > now:
            pause = max(SHORTEST_RETRY, min(1.0, charge.interval / RETRY_SHARE))
            self._paused.add(charge)
            self._later(min(now + pause, charge.deadline), lambda when: self._resume(charge, when))

    def _resume(self, charge: Charge, now: float) -> None:
        if charge in self._paused:  # otherwise `hurry` has sent it
            self._paused.discard(charge)
            self._again(charge, now)

    def _again(self, charge: Charge, now: float) -> None:
        self._dispatch([(charge, now)], now)

    def hurry(self, place: Place) -> None:
        """Asks at once about everything that is kept on this server: it was replaced, or could not be reached. Called
        from any thread."""
        self.run_soon(lambda: self._hurry(place))

    def _hurry(self, place: Place) -> None:
        connection = self._connections.get(place)
        if connection is not None:
            connection.begin_anew()
        now = self.clock()
        due = [charge for charge in self._paused if charge.place is place]
        self._paused.difference_update(due)
        for lane in list(self._armed):
            here = [charge for charge in list(lane.charges) if charge.place is place]
            due += [charge for charge in here if lane.charges.pop(charge, None) is not None]
        self._dispatch([(charge, now) for charge in due], now)
