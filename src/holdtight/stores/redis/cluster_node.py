"""One server of a cluster as a place: its connections, and what its answers mean for the cluster."""

import threading
import weakref
from typing import TYPE_CHECKING, Any

from holdtight.base.clock import boottime
from holdtight.base.plan import LinkDown
from holdtight.config.targets import Single
from holdtight.stores.boundary import Place
from holdtight.stores.client import Client, NodeClient
from holdtight.stores.redis.cluster_acks import NodeAcks
from holdtight.stores.redis.cluster_link import ClusterLink
from holdtight.stores.redis.connect import Dialling, open_link
from holdtight.stores.redis.link import SocketLink
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.single import RedisPlace
from holdtight.stores.redis.slots import ASKING, Endpoint, redirection
from holdtight.stores.redis.store import Store

if TYPE_CHECKING:
    from holdtight.stores.redis.cluster import ClusterPlace

__all__ = ["ClusterNodePlace", "Nowhere"]

_DOUBTFUL = ("CLUSTERDOWN", "MASTERDOWN", "LOADING", "NOREPLICAS", "UNBLOCKED", "READONLY")
_NO_INBOX = b"$0\r\n\r\n"
PROBE_SECONDS = 0.5


class ClusterNodePlace(RedisPlace):
    """One server of a cluster, while it has slots."""

    client: Client
    probe_seconds = PROBE_SECONDS
    home: Any
    """What the client keeps for this server: see sync/cluster.py and aio/cluster.py."""

    def __init__(self, cluster: "ClusterPlace", where: Endpoint) -> None:
        super().__init__(Single(cluster.target.at(*where)), NodeClient(cluster.client), cluster.runtime, cluster.tls)
        self.cluster, self.where = cluster, where
        self.store = Store(
            self.client,
            server=self.display,
            drift=cluster.settings.drift,
            max_waiters=cluster.settings.max_waiters,
        )
        self.acks = NodeAcks(self, cluster.settings.acks) if cluster.settings.acks else None
        self.refreshers = cluster.refreshers
        self.tell_node = lambda node, cause: cluster.tell_node(node, cause)
        self.serves = True
        self.arriving_until = 0.0
        """Until then it is used although it has no slots: one is on the way to it."""
        self.silent_until = 0.0
        """The server has refused to let us listen: until then, waiters that connect to it poll."""
        self._forget_links()

    def _forget_links(self) -> None:
        self._links: weakref.WeakSet[ClusterLink] = weakref.WeakSet()
        self._dialling: dict[Dialling, float] = {}
        """Each attempt to connect, and when it began."""
        self._links_lock = threading.RLock()  # re-entrant: a signal handler may connect while its thread has the lock

    def after_fork(self) -> None:
        super().after_fork()
        self._forget_links()

    @property
    def record_place(self) -> Place:
        return self.cluster.nodes_at[self.cluster.record_slot]

    @property
    def record_is_idle(self) -> bool:
        return self.cluster.record_is_idle

    def _open(self, timeout: float) -> SocketLink:
        try:
            return self._connect(timeout)
        except LinkDown:
            self.cluster.scout.doubt()
            raise

    def _connect(self, timeout: float) -> SocketLink:
        address = self.cluster.target.at(*self.where)
        dialling = Dialling()
        with self._links_lock:
            self._dialling[dialling] = boottime()
        try:
            self._check_serves()  # `leave_server` either finds this attempt, or is found here
            self.cluster.scout.attend()
            tls = self._checked_tls(address)
            link = open_link(
                address, self.client, timeout, tls, dialling=dialling, link_type=ClusterLink, master_only=True
            )
            assert isinstance(link, ClusterLink)
            link.node = self
            if not self.rings:
                link.inbox, link.inbox_word = b"", _NO_INBOX
            with self._links_lock:
                self._links.add(link)
        finally:
            with self._links_lock:
                del self._dialling[dialling]
        try:
            self._check_serves()
        except LinkDown:
            link.close()
            raise
        top = self.cluster.client
        top.lead, top.recorded_until = self.client.lead, boottime()
        return link

    @property
    def rings(self) -> bool:
        return boottime() >= self.silent_until

    def _check_serves(self) -> None:
        if not self.serves:
            raise LinkDown("it has no slots any more", sent=False)

    @property
    def connected(self) -> bool:
        with self._links_lock:
            return bool(self._dialling) or any(link.fd >= 0 for link in self._links)

    def is_silent(self, now: float, seconds: float) -> bool:
        """For how long the server has left a request, or an attempt to connect, unanswered."""
        with self._links_lock:
            if any(now - began > seconds for began in self._dialling.values()):
                return True
            return any(link.fd >= 0 and link.unanswered() > seconds for link in self._links)

    def leave_server(self) -> None:
        """It has no slots any more: ends all connections, also those in use."""
        self.serves = False
        with self._links_lock:
            links, dialling = list(self._links), list(self._dialling)
        for link in links:
            link.cut()
        for each in dialling:
            each.end()

    def doubt(self, said: str) -> bool:
        """True for a server that has become a replica: its connection must not be used again."""
        word = said.partition(" ")[0]
        if word == "MOVED":
            self.cluster.follow(said, self)
        elif any(each in said for each in _DOUBTFUL):
            self.cluster.scout.doubt()
        return "READONLY" in said

    def broken(self) -> None:
        """A connection broke, or stayed silent."""
        self.cluster.scout.doubt()

    def probe(self, charge: Any) -> bytes | None:
        """A replica answers it with MOVED."""
        prepared = getattr(charge, "prepared", None)
        return None if prepared is None else command("EXISTS", prepared.main)

    def redirected(self, charge: Any, said: str) -> "tuple[Place, bytes] | None":
        if said.startswith("HTWIDE"):
            if self.cluster.of(charge) is not self:
                return None  # the slot is on its way here: every request that names all keys must wait for that
            self.cluster.ask_widely(charge.owner)
            return (self, b"") if self.cluster.may_hop(charge) else None
        found = redirection(said, self.where[0])
        if found is None or not self.cluster.may_hop(charge):
            return None
        if found.asking:
            return self.cluster.redirected_to(found), ASKING
        return self.cluster.of(charge), b""


class Nowhere(ClusterNodePlace):
    """Stands for the server of a slot that none is known to serve. To connect is to ask the cluster."""

    def open(self, timeout: float) -> SocketLink:
        self.cluster.scout.ask(boottime() + timeout)
        raise LinkDown("no server of the cluster has that slot", sent=False)
