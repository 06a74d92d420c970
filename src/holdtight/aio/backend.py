"""What an asyncio client consists of, by the topology of its place."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from holdtight.aio.driver import Driver
from holdtight.aio.lock import AsyncLock
from holdtight.aio.transport import Transport
from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.aio.locks import AsyncLocks
    from holdtight.aio.quorum_driver import FanDriver
    from holdtight.config.settings import Settings

__all__ = ["Backend", "backend_of"]


def _semaphore() -> Any:
    from holdtight.aio.kinds import AsyncSemaphore

    return AsyncSemaphore


def _cohort_lock() -> Any:
    from holdtight.aio.cohort import AsyncCohortLock  # loaded with the first lock object that needs it

    return AsyncCohortLock


class Backend(NamedTuple):
    lock_type: type[AsyncLock]
    driver: "Callable[[Any], Driver | FanDriver]"
    """Makes the driver that runs one plan on this transport."""
    new_transport: Callable[..., Transport]
    semaphore_type: Callable[[], Any] = _semaphore
    cohort_lock_type: Callable[[], Any] = _cohort_lock
    homes: "Callable[[], Iterable[Any]]" = tuple
    """What the client keeps for each server of a cluster: see aio/cluster.py."""


_SERVER = Backend(AsyncLock, Driver, Transport)


def backend_of(place: Place, settings: "Settings", locks: "AsyncLocks") -> Backend:
    if place.topology == "cluster" and settings.acks:
        from holdtight.aio.acked_cluster import acked_cluster_backend

        return acked_cluster_backend(place, settings, locks)
    if place.topology == "cluster":
        from holdtight.aio.cluster import cluster_backend

        return cluster_backend(cast(Any, place), settings, locks)
    if place.topology == "quorum":
        from holdtight.aio.quorum_driver import FanDriver, QuorumTransport
        from holdtight.aio.quorum_lock import AsyncQuorumLock

        return Backend(AsyncQuorumLock, FanDriver, QuorumTransport)
    if settings.acks:
        from holdtight.aio.acked import ACKED

        return ACKED
    return _SERVER
