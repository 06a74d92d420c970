"""The requests behind `acks` on a cluster: as in acks.py, for the server that granted.

WAIT counts the replicas of the server that it is sent to, so every server has marks of its own, in slots that it
serves. A server that has lost the slot of a mark refuses it, and the count says nothing. The mark is not in the slot of
the lock: while that slot is moved, a server takes no new key of it, and all its renewals would depend on one slot.
"""

from typing import TYPE_CHECKING

from holdtight.base.plan import Acks
from holdtight.stores.redis import keys
from holdtight.stores.redis.acks import WaitForReplicas
from holdtight.stores.redis.slots import SLOTS, slot_of

if TYPE_CHECKING:
    from holdtight.stores.redis.cluster import ClusterPlace
    from holdtight.stores.redis.cluster_node import ClusterNodePlace

__all__ = ["ClusterAcks", "NodeAcks"]

MARKS = 4
"""So many marks a server has: if one is refused, because its slot is moved just now, the next count has another."""
MARKS_TRIED = 16 * SLOTS
"""A server with a single slot nearly always needs at most this many numbers."""


class ClusterAcks(WaitForReplicas):
    """Asks the server that has the name."""

    def __init__(self, cluster: "ClusterPlace", needed: int) -> None:
        super().__init__(cluster.client.namespace, needed)
        self._cluster = cluster

    def wish(self, name: str, seconds: float) -> Acks:
        acks: Acks = self._cluster.of_name(name).acks.wish(name, seconds)
        return acks


class NodeAcks(WaitForReplicas):
    def __init__(self, node: "ClusterNodePlace", needed: int) -> None:
        super().__init__(node.client.namespace, needed)
        self._node = node
        self._keys = [b""] * MARKS
        self._at = 0
        self._next = 0
        """Numbers below it have been tried."""

    def wish(self, name: str, seconds: float) -> Acks:
        return super().wish(name, seconds)._replace(node=self._node)

    def _mark(self) -> bytes:
        # Threads may come here at the same time. All that they can do is to take another mark than they would alone.
        if not self._took:
            self._at = (self._at + 1) % MARKS
        self._took = False
        at = self._at
        if not self._keys[at] or not self._has(self._keys[at]):
            self._keys[at] = self._found()
        return self._keys[at]

    def _has(self, key: bytes) -> bool:
        return self._node.cluster.at(slot_of(key)) is self._node

    def _found(self) -> bytes:
        if self._node in self._node.cluster.nodes_at:
            begin = self._next
            for self._next in range(begin + 1, begin + MARKS_TRIED):
                key = keys.mark(self._namespace, self._next)
                if self._has(key):
                    return key
        return keys.mark(self._namespace)  # it has no slot as far as we know: the server decides
