"""What a blocking client consists of, by the topology of its place."""

from typing import TYPE_CHECKING, Any

from holdtight.config.settings import Settings
from holdtight.stores.boundary import Place
from holdtight.sync.driver import Driver
from holdtight.sync.lock import Lock
from holdtight.sync.pool import Transport

if TYPE_CHECKING:
    from holdtight.sync.quorum_driver import FanDriver

__all__ = ["Backend", "backend_of"]


class Backend:
    """For one server."""

    lock_type: type[Lock] = Lock
    groups: Any = None
    """The connections to all nodes of a quorum; see sync/quorum_lock.py."""

    def driver(self, transport: Transport) -> "Driver | FanDriver":
        """Runs one plan."""
        return Driver(transport)


def backend_of(place: Place, settings: Settings) -> Backend:
    if place.topology == "quorum":
        from holdtight.sync.quorum_lock import QuorumBackend

        return QuorumBackend(place, settings)
    return Backend()
