"""What a blocking client consists of, by the topology of its place."""

from typing import TYPE_CHECKING, Any, cast

from holdtight.config.settings import Settings
from holdtight.stores.boundary import Place
from holdtight.sync.driver import Driver
from holdtight.sync.lock import Lock
from holdtight.sync.pool import Transport

if TYPE_CHECKING:
    from holdtight.sync.locks import Locks
    from holdtight.sync.quorum_driver import FanDriver

__all__ = ["Backend", "backend_of"]


class Backend:
    """For one server."""

    lock_type: type[Lock] = Lock
    groups: Any = None
    """The connections to all nodes of a quorum; see sync/quorum_lock.py."""

    def transport(self) -> Transport | None:
        """The connections of the client, if they are of another kind than those to one server."""
        return None

    @property
    def semaphore_type(self) -> Any:
        from holdtight.sync.kinds import Semaphore

        return Semaphore

    @property
    def cohort_lock_type(self) -> Any:
        from holdtight.sync.cohort import CohortLock  # loaded with the first lock object that needs it

        return CohortLock

    def driver(self, transport: Transport) -> "Driver | FanDriver":
        """Runs one plan."""
        return Driver(transport)


def backend_of(place: Place, settings: Settings, locks: "Locks") -> Backend:
    if place.topology == "cluster" and settings.acks:
        from holdtight.sync.acked_cluster import AckedClusterBackend

        return AckedClusterBackend(cast(Any, place), settings, locks)
    if place.topology == "cluster":
        from holdtight.sync.cluster import ClusterBackend

        return ClusterBackend(cast(Any, place), settings, locks)
    if place.topology == "quorum":
        from holdtight.sync.quorum_lock import QuorumBackend

        return QuorumBackend(place, settings)
    if settings.acks:
        from holdtight.sync.acked import AckedBackend

        return AckedBackend()
    return Backend()
