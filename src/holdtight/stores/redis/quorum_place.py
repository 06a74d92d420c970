"""The place of a quorum: one place for each node, each with its own connections (one of them the keeper's) and its own
estimate of the node's time."""

from typing import TYPE_CHECKING

from holdtight.base import refusals
from holdtight.base.plan import LinkDown, NoQuorum, ServerSaid
from holdtight.errors import LockError, QuorumNotReached
from holdtight.stores.boundary import Place
from holdtight.stores.client import Client
from holdtight.stores.redis.link import SocketLink
from holdtight.stores.redis.quorum_store import QuorumStore
from holdtight.stores.redis.single import RedisPlace

if TYPE_CHECKING:
    from holdtight.base.runtime import Runtime
    from holdtight.config.settings import Settings
    from holdtight.config.targets import Single

__all__ = ["MOST_OWED", "MOST_OWED_BY_ALL", "SILENT_SECONDS", "NodePlace", "QuorumPlace"]

SILENT_SECONDS = 0.5
MOST_OWED = 64
"""Limit of requests under way to one node, on a connection of one caller."""
MOST_OWED_BY_ALL = 4096
"""The same on a connection that all tasks share."""


class NodePlace(RedisPlace):
    """One node. All nodes share `runs`, which maps the run id of each server to its node."""

    def __init__(
        self, target: "Single", client: Client, settings: "Settings", runtime: "Runtime", runs: "Runs"
    ) -> None:
        super().__init__(target, client, runtime, settings.tls)
        self._runs = runs
        self._run = b""

    def _open(self, timeout: float) -> SocketLink:
        """Refuses a server that another node already reached: under two names, one server would have two votes."""
        link = super()._open(timeout)
        run, before = link.handshake.run, self._run  # read once: other threads open connections too
        if run and run != before:
            other = self._runs.setdefault(run, self)
            if other is not self:
                link.close()
                raise LinkDown(
                    f"it is the same server as {other.display}, and a quorum's nodes must be independent", sent=False
                )
            self._runs.pop(before, None)
            self._run = run
        return link


Runs = dict[bytes, NodePlace]


class QuorumPlace(Place):
    """All nodes as one place. Links are opened to its nodes only."""

    topology = "quorum"
    one_step = False
    one_release = False
    reads_by_any_link = False
    store: QuorumStore

    def __init__(self, settings: "Settings", client: Client, runtime: "Runtime") -> None:
        from holdtight.config.targets import Quorum, Single

        target = settings.target
        assert isinstance(target, Quorum)
        assert settings.max_ttl is not None
        super().__init__(client, runtime, target.display())
        self.nodes: list[NodePlace] = []
        runs: Runs = {}
        for each in target.nodes:
            assert isinstance(each, Single)
            node = client.for_node(guarded=settings.restart_guard, max_ttl=settings.max_ttl)
            self.nodes.append(NodePlace(each, node, settings, runtime, runs))
        self.names = _distinct([node.display for node in self.nodes])
        self.store = QuorumStore(
            client, [node.client for node in self.nodes], drift=settings.drift, max_ttl=settings.max_ttl
        )

    def check_supports(self, what: str, name: str | None) -> None:
        if what in refusals.NOT_ON_A_QUORUM:
            raise refusals.on_a_quorum(what, name)

    def meaning(self, error: LinkDown | ServerSaid, name: str | None) -> LockError:
        if isinstance(error, NoQuorum):
            return QuorumNotReached.among(name, error.nodes, error.majority)
        if isinstance(error, ServerSaid) and name:
            return self.store.meaning(error, name)
        return QuorumNotReached.among(name, {self.display: str(error)}, 0)

    def renew_identity(self) -> None:
        """In a forked child: gives all nodes the same new identity."""
        self.client.renew_identity()
        for node in self.nodes:
            node.client.renew_identity(self.client.id)


def _distinct(names: list[str]) -> list[str]:
    return names if len(set(names)) == len(names) else [f"{name} ({at + 1})" for at, name in enumerate(names)]
