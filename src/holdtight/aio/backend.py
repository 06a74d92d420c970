"""What an asyncio client consists of, by the topology of its place."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from holdtight.aio.driver import Driver
from holdtight.aio.lock import AsyncLock
from holdtight.aio.transport import Transport
from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.aio.quorum_driver import FanDriver

__all__ = ["Backend", "backend_of"]


class Backend(NamedTuple):
    lock_type: type[AsyncLock]
    driver: "Callable[[Any], Driver | FanDriver]"
    """Makes the driver that runs one plan on this transport."""
    new_transport: Callable[..., Transport]


_SERVER = Backend(AsyncLock, Driver, Transport)


def backend_of(place: Place) -> Backend:
    if place.topology == "quorum":
        from holdtight.aio.quorum_driver import FanDriver, QuorumTransport
        from holdtight.aio.quorum_lock import AsyncQuorumLock

        return Backend(AsyncQuorumLock, FanDriver, QuorumTransport)
    return _SERVER
