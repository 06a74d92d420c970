"""Blocking locks on a cluster: which pool a request uses, and a driver that follows redirections.

A lock asks for its home with every access of `_locks`: what the client keeps for the server that has the lock's slot at
that moment. So the fast paths of sync/lock.py run as they are (decision 0022).
"""

import weakref
from typing import TYPE_CHECKING, Any

from holdtight.base.identity import Identity
from holdtight.base.plan import SLOT_LEFT, Acks, Batch, Bell, Elsewhere, LinkDown, Park, ServerSaid, Step
from holdtight.base.values import Owner, Queued
from holdtight.clients.routing import (
    OTHERS_SECONDS,
    Home,
    RoutedLock,
    any_node,
    channel_for,
    get_step,
    prepared_step,
    record_is_missing,
)
from holdtight.config.settings import Settings
from holdtight.stores.boundary import Link
from holdtight.stores.redis.cluster import MOST_HOPS, ClusterPlace, too_many_hops
from holdtight.stores.redis.cluster_node import ClusterNodePlace
from holdtight.stores.redis.script import with_script_body
from holdtight.stores.redis.slots import ASKED_PAUSE, ASKING, LISTEN_SECONDS, mget_keys, redirection
from holdtight.sync.backend import Backend
from holdtight.sync.cohort import CohortLock
from holdtight.sync.driver import Driver
from holdtight.sync.kinds import Semaphore
from holdtight.sync.lease import Lease
from holdtight.sync.lock import Lock
from holdtight.sync.pool import Transport

if TYPE_CHECKING:
    from holdtight.sync.locks import Locks

__all__ = ["ClusterBackend", "ClusterCohortLock", "ClusterLock", "ClusterSemaphore"]


class NodePool(Transport):
    """The connections to one server."""

    def give(self, link: Any) -> None:
        if link.node is self.place:
            super().give(link)
        else:  # the slot moved since the caller looked
            link.node.home.transport.give(link)

    def scrap(self, link: Any) -> None:
        if link.node is self.place:
            super().scrap(link)
        else:
            link.node.home.transport.scrap(link)

    def lose(self, link: Any, down: LinkDown) -> None:
        if link.node is self.place:
            super().lose(link, down)
            self.place.broken()
        else:
            link.node.home.transport.lose(link, down)


class ClusterPool(Transport):
    """For all servers of a client: callers pause here. It has no connections."""

    def take(self, timeout: float, *, beyond: bool = False) -> Link:
        raise AssertionError("a cluster has no connections of its own")

    def take_idle(self) -> Link | None:
        """To the server that has the client's record."""
        place: Any = self.place
        idle: Link | None = place.at(place.record_slot).home.transport.take_idle()
        return idle


class NodeHome(Home):
    def __init__(self, locks: "weakref.ref[Locks]", settings: Settings, node: ClusterNodePlace) -> None:
        super().__init__(locks, settings, node)
        self.transport = NodePool(
            node,
            connect_timeout=settings.connect_timeout,
            max_connections=settings.max_connections,
            spin=settings.spin,
        )
        if self.is_closed():
            self.transport.close()

    def drop_idle(self) -> None:
        while link := self.transport.take_idle():
            self.transport.scrap(link)


class Pools:
    """The pools of all servers."""

    def __init__(self, place: ClusterPlace) -> None:
        self._place = place

    def close(self) -> None:
        for node in self._place.all_nodes():
            node.home.transport.close()

    let_go = close


class ClusterDriver(Driver):
    """Sends every Step to the server of its slot. The plan's own link is that of the requests that take something,
    which a bell may answer; all other Steps borrow a link if another server has their slot. That server has little time
    for a Step aside: it may hang, and nobody hears the bell meanwhile."""

    _asked = False
    """The last attempt was one that a server had sent elsewhere for once."""

    def __init__(self, transport: Transport, link: Any = None, *, beyond: bool = False, touch_at: float = 0.0) -> None:
        place: Any = transport.place
        self._cluster: ClusterPlace = place.cluster
        super().__init__(
            transport if link is None else link.node.home.transport, link, beyond=beyond, touch_at=touch_at
        )
        self._place = self._cluster

    def _step(self, step: Step) -> Any:
        if step.undo:
            return self._undo(step)
        slot = prepared_step(step)
        keys = mget_keys(step.before)
        if keys is not None:
            return self._gather(step, keys)
        own = self._link
        try:
            return self._routed(step, slot)
        except LinkDown as down:
            if step.aside and own is not None and self._link is own:
                raise Elsewhere.because(down) from down
            raise

    def _routed(self, step: Step, slot: int | None) -> Any:
        node, asking = self._known(slot, self._patience_elsewhere(step)), False
        if step.node is not None:
            node = step.node()
        for _ in range(MOST_HOPS + 1):
            try:
                return self._at(node, step, asking)
            except ServerSaid as said:
                found = redirection(str(said), node.where[0])
                if found is None or step.node is not None:
                    raise
                node, asking = self._cluster.redirected_to(found), found.asking
        raise too_many_hops(slot)

    def _patience_elsewhere(self, step: Step) -> float:
        return min(step.patience, OTHERS_SECONDS) if step.aside and self._link is not None else step.patience

    def _known(self, slot: int | None, patience: float) -> ClusterNodePlace:
        """The server of a slot. Asks the cluster if none is known."""
        for ask in (True, False):
            node = any_node(self._cluster) if slot is None else self._cluster.at(slot)
            if node is not self._cluster.nowhere:
                return node
            if ask:
                self._cluster.scout.ask(self._clock() + patience)
        raise LinkDown(f"no server of the cluster has slot {slot}", sent=False)

    def _at(self, node: ClusterNodePlace, step: Step, asking: bool) -> Any:
        link: Any = self._link
        if step.after is None and not step.limit:
            if link is None or link.node is not node:
                return self._borrowing(node, step, asking)
        else:
            self._asked = asking
            if link is not None and link.node is not node:
                self._leave_link()
            if self._link is None:
                self._transport = node.home.transport
                self._link = self._transport.take(step.patience, beyond=self._beyond)
        assert self._link is not None
        try:
            return _through(self._transport, self._link, step, asking, step.patience)
        except LinkDown as down:
            self._drop_link(down)
            raise

    def _borrowing(self, node: ClusterNodePlace, step: Step, asking: bool) -> Any:
        pool: NodePool = node.home.transport
        patience = self._patience_elsewhere(step)
        until = self._clock() + patience
        try:
            link = pool.take(patience, beyond=self._beyond)
        except LinkDown as down:
            raise LinkDown(f"{node.display}: {down.cause}", sent=down.sent, silent=down.silent) from down
        if patience < step.patience:
            patience = until - self._clock()  # for both
        try:
            answer = _through(pool, link, step, asking, patience)
        except LinkDown as down:
            pool.lose(link, down)
            raise
        except ServerSaid:
            pool.give(link)
            raise
        except BaseException:
            pool.scrap(link)
            raise
        pool.give(link)
        return answer

    def _leave_link(self) -> None:
        self._stop_standing()
        link, self._link = self._link, None
        if link is not None:
            self._transport.give(link)

    def _batch(self, batch: Batch) -> list[Any]:
        """One by one: they may be of several servers."""
        answers: list[Any] = []
        for step in batch.steps:
            try:
                answers.append(self._step(step))
            except ServerSaid as said:
                answers.append(said)
        return answers

    def _acks(self, acks: Acks) -> int:
        """On the link of the grant: another server's replicas, or another life of this server, prove nothing."""
        link: Any = self._link
        if link is None or link.node is not acks.node:
            raise LinkDown(SLOT_LEFT, sent=False)
        return acks.counted(super()._batch(Batch(acks.steps)))

    def _gather(self, step: Step, keys: list[bytes]) -> Any:
        """An MGET of keys in several slots."""
        sent, found = self._clock(), list[Any]()
        for key in keys:
            one = get_step(key, step)
            one.aside = one.aside or (self._link is not None and b"{" not in key)  # a record
            try:
                found.append(self._step(one))
            except (LinkDown, ServerSaid) as error:
                if not record_is_missing(key, error):
                    raise
                found.append(None)
        return step.read(found, sent)

    def _undo(self, step: Step) -> Any:
        slot = prepared_step(step)
        link: Any = self._link
        if link is None or slot is None or self._cluster.at(slot) is not link.node:
            self._stop_standing()
            self._defer(step)
            return None
        try:
            return super()._undo(step)
        except ServerSaid as said:
            if redirection(str(said), "") is None:
                raise
            self._defer(step)
            return None

    def _park(self, park: Park) -> Bell | None:
        link: Any = self._link
        if link is None or park.touch is None or not link.inbox:
            return super()._park(park)
        if self._asked:
            self._transport.pause(min(ASKED_PAUSE, max(0.0, park.until - self._clock())))
            return Bell() if self._clock() < park.until else None
        channel = channel_for(park.touch(link.inbox), link.inbox)
        if channel in link.channels:
            return super()._park(park)
        try:
            link.listen(channel, LISTEN_SECONDS)
        except ServerSaid as said:
            self._cluster.refused_to_ring(str(said), link.node)
            self._drop_link()
            raise LinkDown(str(said), sent=False) from said
        except LinkDown as down:
            self._drop_link(down)
            raise
        return Bell()  # what was rung before is lost: look once more


def _through(pool: Transport, link: Link, step: Step, asking: bool, patience: float) -> Any:
    if not asking:
        return pool.perform(link, step, patience)
    sent = pool.place.clock()
    request = with_script_body(step.packed(link.inbox_word))
    _, reply = link.call_all([ASKING, request], patience)
    if isinstance(reply, Exception):
        raise pool.refusal(reply)
    return step.read(reply, sent)


class ClusterLock(RoutedLock, Lock):
    __slots__ = ()

    driver = ClusterDriver

    def _briefly(
        self, link: Any, owner: Owner, wait: float | None, started: float, queued: Queued, limit: float, who: Identity
    ) -> Lease | None:
        """A link that does not listen to the name's bells yet is left to the driver."""
        prepared: Any = self.prepared
        if prepared.main + b":" + link.inbox in link.channels:
            return super()._briefly(link, owner, wait, started, queued, limit, who)
        return self._slowly(self.asking(owner, wait, started, who, or_none=False), who, link, queued)


class ClusterSemaphore(Semaphore, ClusterLock):
    __slots__ = ()


class ClusterCohortLock(CohortLock, ClusterLock):
    __slots__ = ()


class ClusterBackend(Backend):
    lock_type = ClusterLock

    @property
    def semaphore_type(self) -> Any:
        return ClusterSemaphore

    @property
    def cohort_lock_type(self) -> Any:
        return ClusterCohortLock

    def __init__(self, place: ClusterPlace, settings: Settings, locks: "Locks") -> None:
        known = weakref.ref(locks)
        place.furnish(lambda node: NodeHome(known, settings, node))
        self.groups = Pools(place)
        self._place, self._settings = place, settings

    def transport(self) -> Transport:
        return ClusterPool(
            self._place, connect_timeout=self._settings.connect_timeout, max_connections=None, spin=False
        )

    def driver(self, transport: Transport) -> Driver:
        return ClusterDriver(transport)
