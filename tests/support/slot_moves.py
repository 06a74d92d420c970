"""A slot of a cluster that is moved key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.clusters import Cluster, ClusterNode

__all__ = ["Move"]


class Move:
    """One slot on its way from one master to another."""

    def __init__(self, cluster: Cluster, slot: int, source: ClusterNode, target: ClusterNode) -> None:
        self._cluster, self.slot, self.source, self.target = cluster, slot, source, target
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def keys(self) -> list[str]:
        found: list[str] = self.source.command("CLUSTER", "GETKEYSINSLOT", self.slot, 1000)
        return found

    def move(self, *keys: str) -> None:
        port = self.target.tls_port or self.target.port  # nodes of a cluster with TLS use it for this too
        self.source.command("MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", *keys)

    def finish(self) -> None:
        """Moves what is left, and tells all masters."""
        while keys := self.keys():
            self.move(*keys)
        for each in (self.target, self.source, *self._cluster.masters):
            each.command("CLUSTER", "SETSLOT", self.slot, "NODE", self.target.id)
