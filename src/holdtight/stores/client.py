"""A client's identity: an id, fresh owners, and what it knows of the server's time. Belongs to no kind of store."""

import itertools
import math
import os
import time
from collections import deque

from holdtight.base.clock import Clock, boottime
from holdtight.base.values import CLIENT_ID_SIZE, OWNER_SIZE, Owner

__all__ = ["MUCH_AHEAD", "RECORD_GOOD", "Client", "NodeClient"]

RECORD_SECONDS = 60
"""How long a client's record stays on a server at least, unless it is written again."""
RECORD_GOOD = 40
"""A record that was written so many seconds ago is written again before the next acquisition."""
MUCH_AHEAD = 0.5
"""A lead that is so much higher (seconds) means that the server's clock was set, or that the reply was slow."""
OWNERS_IN_A_DRAW = 128
"""How many owners one read of the system's randomness serves."""


class Client:
    """This client's identity on the servers: an id, and fresh owners.

    Every owner starts with the client's id. The store keeps a record under that id, with host, pid and start time.
    """

    known = True
    """True if the client has a record and an inbox. Otherwise it writes nothing to a server except its locks."""
    max_ttl_ms: int | None = None
    """Set for a node of a quorum: requests then carry this max_ttl and the run id of the server."""
    guarded = False
    """True if the handshake must also read the server's run id, for the restart guard."""

    sharded = False
    """True on a server of a cluster: bells come in the slot of their lock, and the record has a slot of its own."""

    def __init__(self, namespace: str, clock: Clock = boottime) -> None:
        self.namespace = namespace
        self.clock = clock
        self._longest_ttl = 0.0
        self.detached = False
        """True if a lease was detached: its lock may outlive the client, and so must the record."""
        self.renew_identity()

    def for_node(self, *, guarded: bool, max_ttl: float) -> "Client":
        """This client for one node of a quorum: the id is the same on all nodes, the time is that of the node."""
        node = Client(self.namespace, self.clock)
        node.max_ttl_ms, node.guarded = round(max_ttl * 1000), guarded
        node.outlived_by(max_ttl)
        node.renew_identity(self.id)
        return node

    def renew_identity(self, client_id: bytes | None = None) -> None:
        """Sets a new identity: in a new client, and in a forked child, which must not use the parent's."""
        self.id = os.urandom(CLIENT_ID_SIZE) if client_id is None else client_id
        self.owners: deque[Owner] = deque()
        """Unused owners; `owner()` refills them."""
        self.connections = itertools.count(1)
        """Numbers the connections of this client."""
        self.lead: float | None = None
        """Server time minus our clock, in seconds; None until a server has told its time."""
        self.recorded_until = 0.0
        """The time (on our clock) until which our record is certainly on the server."""

    def owner(self) -> Owner:
        """A fresh owner. Random bytes are read in batches; `pop` is atomic."""
        try:
            return self.owners.pop()
        except IndexError:
            size = OWNER_SIZE - CLIENT_ID_SIZE
            noise = os.urandom(size * OWNERS_IN_A_DRAW)
            fresh = [self.id + noise[at : at + size] for at in range(0, len(noise), size)]
            last = fresh.pop()
            self.owners.extend(fresh)
            return last

    def announcement_due(self) -> bool:
        """True if the record must be written again; the caller then writes it."""
        now = self.clock()
        if now <= self.recorded_until or not self.known:
            return False
        self.recorded_until = now + RECORD_GOOD
        return True

    def outlived_by(self, ttl: float) -> None:
        """A lock of this client may stay on the server for so many seconds if this process dies. The record must stay
        as long: people want to know whose lock it is."""
        if ttl > self._longest_ttl:
            before, self._longest_ttl = self.record_seconds, ttl
            if self.record_seconds > before:
                self.recorded_until = 0.0

    @property
    def record_seconds(self) -> int:
        """How long the record stays once it is written."""
        return max(RECORD_SECONDS, math.ceil(self._longest_ttl) + RECORD_GOOD)

    def learn(self, server_time: float, sent: float) -> None:
        """Learns the server's time (seconds) from any reply that has it.

        The server read its clock between `sent` and now. What is known stays if that agrees with it: the time that a
        slow or late request took on its way is no lead. Otherwise arrival limits would be too long by as much.
        """
        known = self.lead
        if known is not None and known > server_time - sent:
            self.lead = server_time - sent
        else:
            least = server_time - self.clock()
            if known is None or known < least:
                self.lead = least

    def learn_usual(self, server_time: float, sent: float) -> None:
        """Learns the lead from one of many ordinary replies; a faster reply counts for more. A proposed fence is then
        seldom ahead of a node's clock, in which case the next owner would have to wait for it or exceed it."""
        known, lead = self.lead, server_time - sent
        if known is None or lead < known or lead > known + MUCH_AHEAD:
            self.learn(server_time, sent)
        else:
            self.lead = known + (lead - known) / 16

    def server_time(self, now: float) -> float:
        """The server's time at our `now`."""
        return now + (self.lead if self.lead is not None else time.time() - self.clock())


class NodeClient(Client):
    """A client on one server of a cluster: it has the id, the owners and the numbers of connections of the client, and
    its own estimate of the server's time."""

    sharded = True

    def __init__(self, of: Client) -> None:
        self._of = of
        super().__init__(of.namespace, of.clock)

    @property
    def record_seconds(self) -> int:
        return self._of.record_seconds

    def renew_identity(self, client_id: bytes | None = None) -> None:
        of = self._of
        self.id, self.owners, self.connections = of.id, of.owners, of.connections
        self.lead = None
        self.recorded_until = float("inf")

    def announcement_due(self) -> bool:
        return False
