"""The place of a cluster: it routes, and is never connected to. Each server is a ClusterNodePlace with its own
connections, its own estimate of the server's time, and its own connection of the keeper's, so that a dead one delays
nobody else.

`nodes_at` has the ClusterNodePlace of each slot, and `homes` what a client keeps for it. Both lists stay; their entries
change when a slot moves. A request finds its server by its slot each time it is sent (decision 0022).
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtight.base import refusals
from holdtight.base.clock import boottime
from holdtight.base.plan import LinkDown
from holdtight.base.values import Owner
from holdtight.stores.boundary import Place
from holdtight.stores.client import Client
from holdtight.stores.redis import keys
from holdtight.stores.redis.cluster_acks import ClusterAcks
from holdtight.stores.redis.cluster_node import ClusterNodePlace, Nowhere
from holdtight.stores.redis.cluster_scout import ClusterScout
from holdtight.stores.redis.cluster_store import ClusterStore
from holdtight.stores.redis.link import SocketLink
from holdtight.stores.redis.slots import (
    SLOTS,
    Endpoint,
    Redirection,
    load_sharded,
    redirection,
    slot_of,
    slot_of_request,
)

if TYPE_CHECKING:
    import ssl

    from holdtight.base.runtime import Runtime
    from holdtight.config.settings import Settings
    from holdtight.config.targets import Address
    from holdtight.stores.redis.surroundings import LookAround

__all__ = ["MOST_HOPS", "ClusterPlace", "too_many_hops"]

MOST_HOPS = 5
NUDGE_AGAIN_SECONDS = 0.15
HOP_SECONDS = 0.5
"""Redirections of one charge that are further apart than this do not belong together."""
UNHEARD_SECONDS = 60.0
"""How long a server that refuses to let us listen is not asked again: the right may be granted meanwhile."""
ARRIVING_SECONDS = 60.0
"""How long a server without slots that ASK has named is not given up: its first slot is on the way to it."""


class ClusterPlace(Place):
    topology = "cluster"
    one_step = False
    reads_by_any_link = False
    undoes_for_a_ttl = True

    def __init__(self, settings: "Settings", client: Client, runtime: "Runtime") -> None:
        from holdtight.config.targets import Cluster

        target = settings.target
        assert isinstance(target, Cluster)
        super().__init__(client, runtime, target.display())
        self.target: Cluster = target
        self.settings, self.tls = settings, settings.tls
        self.acks = ClusterAcks(self, settings.acks) if settings.acks else None
        self.cluster = self
        self.record_slot = slot_of(keys.client_record(client.namespace, client.id))
        self._changing = threading.RLock()  # re-entrant: a signal handler may lock while its thread has it
        self._known: dict[Endpoint, ClusterNodePlace] = {}
        self._others: set[Endpoint] = set()
        self._masters: set[ClusterNodePlace] = set()
        """According to what the scout learned last."""
        self._new_home: Callable[[ClusterNodePlace], Any] = lambda node: None
        self.wide: dict[Owner, float] = {}
        """Owners whose next renewal names all keys, as the main key alone did not tell enough; and since when."""
        self._hops: dict[Any, tuple[int, float]] = {}
        self._moved_at: dict[int, float] = {}
        self.nowhere = Nowhere(self, (target.seeds[0].host, target.seeds[0].port))
        self.nodes_at: list[ClusterNodePlace] = [self.nowhere] * SLOTS
        self.homes: list[Any] = [None] * SLOTS
        self.scout = ClusterScout(self)
        self.store = ClusterStore(
            self, client, server=self.display, drift=settings.drift, max_waiters=settings.max_waiters
        )
        load_sharded()

    def furnish(self, new_home: Callable[[ClusterNodePlace], Any]) -> None:
        """`new_home` makes what the client keeps for each server."""
        self._new_home = new_home
        self.nowhere.home = new_home(self.nowhere)
        self.homes[:] = [self.nowhere.home] * SLOTS

    def check_supports(self, what: str, name: str | None) -> None:
        if what in refusals.NOT_ON_A_CLUSTER:
            raise refusals.on_a_cluster(what, name)

    def share_events(self, events: Any) -> None:
        for node in self.all_nodes():
            node.home.events = events

    def tls_for(self, address: "Address") -> "ssl.SSLContext | None":
        return self.nowhere.tls_for(address)

    def renew_identity(self) -> None:
        super().renew_identity()
        self.record_slot = slot_of(keys.client_record(self.client.namespace, self.client.id))
        self._changing = threading.RLock()
        for node in self.all_nodes():
            node.client.renew_identity()

    # Where things are.

    def all_nodes(self) -> "list[ClusterNodePlace]":
        with self._changing:
            return [*self._known.values(), self.nowhere]

    def masters(self) -> "list[ClusterNodePlace]":
        with self._changing:
            return [node for node in self._known.values() if node.serves]

    @property
    def healthy(self) -> bool | None:
        """Of the servers that have slots now: one that was replaced counts no more."""
        found = [node.up for node in self.masters() if node.up is not None]
        return all(found) if found else None

    def node(self, where: Endpoint) -> ClusterNodePlace:
        """The place of a server, made when it is first heard of."""
        with self._changing:
            found = self._known.get(where)
            if found is None:
                found = ClusterNodePlace(self, where)
                found.home = self._new_home(found)
                self._known[where] = found
            found.serves = True
            return found

    def redirected_to(self, found: Redirection) -> ClusterNodePlace:
        node = self.node(found.where)
        if found.asking:
            node.arriving_until = boottime() + ARRIVING_SECONDS
        return node

    def of(self, charge: Any) -> Place:
        slot = getattr(charge, "home", None)
        if slot is None:
            request = charge.request(self.clock())
            slot = slot_of_request(request) if request else None
            if slot is None:
                return self.nowhere
            charge.home = slot
        return self.nodes_at[slot]

    def at(self, slot: int) -> ClusterNodePlace:
        return self.nodes_at[slot]

    def of_name(self, name: str) -> ClusterNodePlace:
        return self.nodes_at[slot_of(keys.main_key(self.client.namespace, name))]

    def may_hop(self, charge: Any) -> bool:
        """Counts the redirections of a charge; a charge that is sent to and fro pauses now and then."""
        now = boottime()
        count, since = self._hops.get(charge, (0, now))
        if now - since > HOP_SECONDS:
            count, since = 0, now
        if len(self._hops) > 32:
            self._hops = {each: known for each, known in self._hops.items() if now - known[1] < HOP_SECONDS}
        if count >= MOST_HOPS:
            self._hops.pop(charge, None)
            return False
        self._hops[charge] = count + 1, since
        return True

    def ask_widely(self, owner: Owner) -> None:
        now = boottime()
        if len(self.wide) > 32:  # a lease that ended before it asked again leaves its owner here
            self.wide = {each: since for each, since in self.wide.items() if now - since < HOP_SECONDS}
        self.wide[owner] = now

    # What is learned.

    def follow(self, said: str, asked: ClusterNodePlace) -> ClusterNodePlace | None:
        """From MOVED: that slot is elsewhere now. All others are looked up soon."""
        found = redirection(said, asked.where[0])
        if found is None or found.asking:
            return None
        node = self.node(found.where)
        with self._changing:
            if self.nodes_at[found.slot] is not node:
                self.nodes_at[found.slot] = node
                self.homes[found.slot] = node.home
                self._moved_at[found.slot] = boottime()
        self.scout.doubt()
        return node

    def refused_to_ring(self, said: str, node: ClusterNodePlace) -> None:
        """A server does not let us listen to a channel: the slot is elsewhere, or waiters must poll."""
        node.doubt(said)
        if "NOPERM" in said or "unknown command" in said.lower():
            node.silent_until = boottime() + UNHEARD_SECONDS

    def whereabouts(self) -> list[Endpoint]:
        """All nodes that are known, else those that were given."""
        with self._changing:
            known = [*self._known, *self._others]
        given = [(each.host, each.port) for each in self.target.seeds]
        return list(dict.fromkeys([*known, *given]))

    def learn(self, table: "list[Endpoint | None]", nodes: set[Endpoint], asked: float) -> None:
        """Called by the scout, in its thread: `table` has the master of each slot, as the nodes said after `asked`."""
        with self._changing:
            before = list(self.nodes_at)
            serving_so_far = {node for node in self._known.values() if node.serves}
            places = {where: self.node(where) for where in {each for each in table if each is not None}}
            found = [self.nowhere if each is None else places[each] for each in table]
            named = set(found)  # a server that only a MOVED has told of may be about to take over
            for slot, at in list(self._moved_at.items()):
                if at > asked:
                    found[slot] = before[slot]  # a server told us meanwhile
                else:
                    del self._moved_at[slot]
            serving, now = set(found), boottime()
            # A server whose first slot is on the way to it: none that had slots and has lost them.
            arriving = {each for each in self._known.values() if each.arriving_until > now} - self._masters
            for node in self._known.values():
                if node not in serving and node not in arriving:
                    node.serves = False
            self.nodes_at[:] = found
            self.homes[:] = [node.home for node in found]
            self._others = nodes - self._known.keys()
            gone, masters = serving_so_far - serving - arriving, self._masters
            self._masters = named
            replaced = {(old, new) for old, new in zip(before, found, strict=True) if old is not new}
            deserted = [node for node in self._known.values() if not node.serves]
            for node in deserted:
                if node.where not in nodes and not node.connected:
                    del self._known[node.where]  # it is in the cluster no more
        self._changed(gone, replaced, masters)
        for node in deserted:
            node.home.drop_idle()  # also what callers have given back since the last time

    def _changed(
        self,
        gone: set[ClusterNodePlace],
        replaced: set[tuple[ClusterNodePlace, ClusterNodePlace]],
        masters: set[ClusterNodePlace],
    ) -> None:
        """`masters` are those before."""
        for node in gone:
            node.leave_server()
        if not replaced:
            return
        gaining = {new for _, new in replaced}
        self._nudge(gone)
        now = self.clock()
        self.runtime.keeper.at(
            now + NUDGE_AGAIN_SECONDS, lambda _: self._nudge(gone)
        )  # for a caller that was about to pause
        for node in gaining:
            self.runtime.keeper.hurry_from(node, now)
        for old, new in replaced:
            if old in gone and new not in masters:
                self.tell_failover(old.display, new.display)

    def _nudge(self, gone: set[ClusterNodePlace]) -> None:
        for place in {self, *self.all_nodes(), *gone}:  # callers pause at the server that they asked last
            for transport in list(place.pausing):
                transport.nudge()
        for node in gone:
            self.runtime.keeper.leave(node)

    # In use, or no more.

    def in_use(self) -> bool:
        if any(node.connected for node in self.all_nodes()):
            return True
        return next(self.runtime.keeper.charges(self), None) is not None  # of a closed client

    def hears_nothing(self, seconds: float) -> bool:
        """A server has left a request unanswered for this long, so it may hang."""
        now = boottime()
        return any(node.is_silent(now, seconds) for node in self.masters())

    def leave(self) -> None:
        for node in self.all_nodes():
            node.spare = lambda: None  # it refers to the client's idle links, and the scout's thread to this place
            self.runtime.keeper.forget(node)
        self.scout.leave()

    @property
    def survey(self) -> Any:
        from holdtight.stores.redis.cluster_survey import ClusterSurvey

        return ClusterSurvey(self)

    def look_around(self) -> "LookAround":
        from holdtight.stores.redis.surroundings import LookAround  # an operator's verb

        return LookAround(self.target, self.tls_for, self._others).begin()

    # Requests about a name use the time of the server that has it.

    def forcing_of(self, name: str) -> Any:
        from holdtight.stores.redis.cluster_survey import ClusterForcing

        return ClusterForcing(self.of_name(name).client)

    def records(self, name: str, occurrence: str) -> Any:
        return self.of_name(name).records(name, occurrence)

    def proclaim_step(self, name: str, owner: Any, label: str) -> Any:
        return self.of_name(name).proclaim_step(name, owner, label)

    def flight_values(self, name: str) -> Any:
        return self.of_name(name).flight_values(name)

    def open(self, timeout: float) -> SocketLink:
        raise AssertionError("a cluster has no connection of its own")


def too_many_hops(slot: int | None) -> LinkDown:
    """For a request that was redirected again and again."""
    return LinkDown(f"slot {slot}: redirected more than {MOST_HOPS} times", sent=False)
