"""What both colours share of locks on a cluster: the home of a lock, which changes when its slot moves."""

import weakref
from typing import TYPE_CHECKING, Any

from holdtight.base.clock import Backoff
from holdtight.base.plan import LinkDown, ServerSaid, Step
from holdtight.clients.lock import BaseLock, restore_lock
from holdtight.core.contend import Answer
from holdtight.stores.redis.cluster import ClusterPlace
from holdtight.stores.redis.cluster_node import ClusterNodePlace
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.slots import first_key, redirection, sharded, slot_of_request

if TYPE_CHECKING:
    from holdtight.config.settings import Settings
    from holdtight.grants.tenure import Tenure

__all__ = ["OTHERS_SECONDS", "Home", "RoutedLock", "channel_for", "get_step", "prepared_step", "record_is_missing"]

LONGEST_ROUTING_PAUSE = 0.2
"""Between two tries while a slot is on its way."""
OTHERS_SECONDS = 0.2
"""How long a caller asks another server than the one of its lock for what it can do without. A blocking waiter hears no
bell meanwhile, and must confirm within half a second."""


class Home:
    """What a client keeps for one server of a cluster. To a lock it looks like a client of that server; everything that
    is not about the server is the client's own."""

    def __init__(self, locks: "weakref.ref[Any]", settings: "Settings", node: ClusterNodePlace) -> None:
        self._real = locks  # the place has the homes, and must not keep the client alive
        self.node = node
        self.client = node.client
        self.store = node.store
        self.events: Any = getattr(locks(), "events", None)
        cap = min(settings.retry.cap, LONGEST_ROUTING_PAUSE)
        self.settings = settings._replace(retry=Backoff(min(settings.retry.first, cap), cap))
        self.place: Any = node.cluster
        """Charges are the cluster's: the keeper finds their server each time."""

    def is_closed(self) -> bool:
        real = self._real()
        return real is None or real.closed

    def drop_idle(self) -> None:
        """The server has no slots any more: closes the connections that nobody uses."""

    def marker_of(self, tenure: "Tenure") -> int:
        """As that of a client, in the time of this server."""
        return tenure.marker if self.client.server_time(self.place.clock()) * 1000 <= tenure.marker else 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)


class RoutedLock(BaseLock):
    """A lock on a cluster. `_locks` is the home of its slot at this moment."""

    __slots__ = ()

    if not TYPE_CHECKING:

        @property
        def _locks(self) -> Home:
            prepared = self.prepared
            return prepared.shape.homes[prepared.home]

        @_locks.setter
        def _locks(self, locks: object) -> None:
            """The key has the client."""

    @property
    def client(self) -> Any:
        return self.key[0]

    def _understood(self, reply: Any, sent: float) -> Answer | None:
        """None after a redirection, too: nothing has run, so the plan starts afresh, at the right server."""
        if isinstance(reply, Exception):
            home: Home = self._locks
            home.node.doubt(str(reply))
            if redirection(str(reply), "") is not None:
                return None
        return super()._understood(reply, sent)

    def __reduce__(self) -> tuple[object, ...]:
        return restore_lock, (type(self), self.key[0], self._name, self.options)


def prepared_step(step: Step) -> int | None:
    """Gives the step the sharded form of its script. Returns its slot; None if it has none."""
    step.before = sharded(step.before)
    if step.otherwise is not None:
        step.otherwise.before = sharded(step.otherwise.before)
    return slot_of_request(step.before)


def channel_for(touch: bytes, inbox: bytes) -> bytes:
    """The channel of a waiter's bells, from its heartbeat: in the slot of the lock."""
    main = first_key(touch)
    assert main is not None
    return main + b":" + inbox


def get_step(key: bytes, like: Step) -> Step:
    return Step(command("GET", key), None, lambda reply, sent: reply, patience=like.patience, aside=like.aside)


def record_is_missing(key: bytes, error: LinkDown | ServerSaid) -> bool:
    """Whether the record of a client may be left out: it costs a name in a message. A lock may not."""
    return b"{" not in key and not (isinstance(error, ServerSaid) and error.lacks_right)


def any_node(cluster: ClusterPlace) -> ClusterNodePlace:
    """For a request without a key that any server can answer."""
    return next(iter(cluster.masters()), cluster.nowhere)
