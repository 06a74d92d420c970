"""asyncio locks on a cluster: one connection per server and loop, and a driver that follows redirections.

As in sync/cluster.py, a lock finds its home with every access of `_locks`.
"""

import asyncio
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdtight.aio.backend import Backend
from holdtight.aio.cluster_connection import ClusterConnection
from holdtight.aio.cohort import AsyncCohortLock
from holdtight.aio.connection import Connection
from holdtight.aio.driver import Driver
from holdtight.aio.kinds import AsyncSemaphore
from holdtight.aio.lock import AsyncLock
from holdtight.aio.per_loop import PerLoop
from holdtight.aio.transport import Transport
from holdtight.base.plan import NO_ANSWER, Batch, Bell, Elsewhere, LinkDown, Park, ServerSaid, Step
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

if TYPE_CHECKING:
    from holdtight.aio.locks import AsyncLocks

__all__ = ["AsyncClusterCohortLock", "AsyncClusterLock", "AsyncClusterSemaphore", "cluster_backend"]


class NodeTransport(Transport):
    """The connection to one server."""

    def _connection(self, link: Link) -> Connection:
        return ClusterConnection(link, self.loop, self.place.runtime, self.place.broken)


class ClusterTransport(Transport):
    """For all servers of a client: it has no connection."""

    def ready(self) -> Connection | None:
        """To the server that has the client's record."""
        place: Any = self.place
        found: Connection | None = place.at(place.record_slot).home.transport().ready()
        return found

    async def connect(self, timeout: float) -> Connection:
        raise AssertionError("a cluster has no connection of its own")


class NodeHome(Home, PerLoop):
    def _is_over(self) -> bool:
        return self.is_closed()

    def __init__(self, locks: "weakref.ref[AsyncLocks]", settings: Settings, node: ClusterNodePlace) -> None:
        self.open_loops(node, settings.connect_timeout)
        super().__init__(locks, settings, node)

    def _new_transport(self, loop: asyncio.AbstractEventLoop) -> Transport:
        return NodeTransport(self.node, loop, connect_timeout=self.settings.connect_timeout)


class ClusterDriver(Driver):
    """Sends every Step to the server of its slot. The plan's own connection is that of the requests that take
    something, which a bell may answer; all other Steps go by the connection of the server that has their slot. That
    server has little time for a Step aside: it may hang, and the task does not hear its bell meanwhile."""

    _asked = False
    """The last attempt was one that a server had sent elsewhere for once."""

    def __init__(self, transport: Transport, connection: Connection | None = None) -> None:
        super().__init__(transport, connection)
        place: Any = transport.place
        self._cluster: ClusterPlace = place.cluster
        self._place = self._cluster

    async def _step(self, step: Step) -> Any:
        slot = prepared_step(step)
        keys = mget_keys(step.before)
        if keys is not None:
            return await self._gather(step, keys)
        own = self._connection
        try:
            return await self._routed(step, slot)
        except LinkDown as down:
            if step.aside and own is not None and own.alive:
                raise Elsewhere.because(down) from down
            raise

    async def _routed(self, step: Step, slot: int | None) -> Any:
        brief = step.aside and self._connection is not None
        node, asking = await self._known(slot, OTHERS_SECONDS if brief else step.patience), False
        if step.node is not None:
            node = step.node()
        for _ in range(MOST_HOPS + 1):
            try:
                return await self._at(node, step, asking)
            except ServerSaid as said:
                found = redirection(str(said), node.where[0])
                if found is None or step.node is not None:
                    raise
                node, asking = self._cluster.redirected_to(found), found.asking
        raise too_many_hops(slot)

    async def _known(self, slot: int | None, patience: float) -> ClusterNodePlace:
        """The server of a slot. Asks the cluster if none is known: a thread does, as for a connection."""
        down: LinkDown | None = None
        for ask in (True, False):
            node = any_node(self._cluster) if slot is None else self._cluster.at(slot)
            if node is not self._cluster.nowhere:
                return node
            if ask:
                try:
                    await node.home.transport().connect(patience)
                except LinkDown as error:
                    down = error
        assert down is not None
        raise LinkDown(down.cause, sent=False, silent=down.silent)

    async def _at(self, node: ClusterNodePlace, step: Step, asking: bool) -> Any:
        transport: Transport = node.home.transport()
        if step.after is not None or step.limit:
            self._asked = asking
            if self._transport is not transport:
                self._stop_standing()
                self._transport, self._connection = transport, None
            return await self._through(transport, await self._connected(step), step, asking)
        if not step.aside or self._connection is None or self._transport is transport:
            return await self._once(node, step, asking)
        try:
            # Only this task gives up: the request has the usual patience, which ends the connection of all tasks.
            async with asyncio.timeout(OTHERS_SECONDS):
                return await self._once(node, step, asking)
        except TimeoutError:
            raise LinkDown(f"{node.display}: {NO_ANSWER}", sent=True, silent=True) from None

    async def _once(self, node: ClusterNodePlace, step: Step, asking: bool) -> Any:
        transport: Transport = node.home.transport()
        try:
            connection = await transport.connect(step.patience)
        except LinkDown as down:
            raise LinkDown(f"{node.display}: {down.cause}", sent=down.sent, silent=down.silent) from down
        return await self._through(transport, connection, step, asking)

    @staticmethod
    async def _through(transport: Transport, connection: Connection, step: Step, asking: bool) -> Any:
        if asking:
            return await _asking(transport, connection, step)
        return await transport.perform(connection, step)

    async def _batch(self, batch: Batch) -> list[Any]:
        """Each to its own server."""
        answers: list[Any] = await asyncio.gather(*map(self._step_of_batch, batch.steps))
        return answers

    async def _step_of_batch(self, step: Step) -> Any:
        try:
            return await self._step(step)
        except ServerSaid as said:
            return said

    async def _gather(self, step: Step, keys: list[bytes]) -> Any:
        """An MGET of keys in several slots."""
        sent = self._clock()

        async def get(key: bytes) -> Any:
            one = get_step(key, step)
            one.aside = one.aside or (self._connection is not None and b"{" not in key)  # a record
            try:
                return await self._step(one)
            except (LinkDown, ServerSaid) as error:
                if not record_is_missing(key, error):
                    raise
                return None

        return step.read(await asyncio.gather(*map(get, keys)), sent)

    async def _undo(self, step: Step) -> Any:
        slot = prepared_step(step)
        place: Any = self._transport.place
        if slot is None or self._cluster.at(slot) is not place:
            self._stop_standing()
            self._defer(step)
            return None
        try:
            return await super()._undo(step)
        except ServerSaid as said:
            if redirection(str(said), "") is None:
                raise
            self._defer(step)
            return None

    async def _wait(self, park: Park) -> Bell | None:
        connection: Any = self._connection
        if not isinstance(connection, ClusterConnection) or park.touch is None or not connection.inbox:
            return await super()._wait(park)
        if self._asked:
            await self._transport.pause(min(park.until, self._clock() + ASKED_PAUSE))
            return Bell() if self._clock() < park.until else None
        channel = channel_for(park.touch(connection.inbox), connection.inbox)
        if channel not in connection.channels:
            refusal = await connection.listen_to(channel, LISTEN_SECONDS)
            if refusal is None:
                return Bell()  # what was rung before is lost: look once more
            place: Any = self._transport.place
            self._cluster.refused_to_ring(refusal, place)
            if not place.rings:
                connection.fail(LinkDown(refusal, sent=True))
            raise LinkDown(refusal, sent=False)
        connection.waits_on(park.owner, channel)
        return await super()._wait(park)


async def _asking(transport: Transport, connection: Connection, step: Step) -> Any:
    sent = transport.place.clock()
    request = with_script_body(step.packed(connection.inbox_word))
    # No other request may come between the two: nothing is awaited there.
    first, second = connection.ask(ASKING, step.patience), connection.ask(request, step.patience)
    _, reply = await asyncio.gather(first, second)
    if isinstance(reply, Exception):
        raise transport.refusal(connection, reply)
    return step.read(reply, sent)


class AsyncClusterLock(RoutedLock, AsyncLock):
    __slots__ = ()

    driver = ClusterDriver


class AsyncClusterSemaphore(AsyncSemaphore, AsyncClusterLock):
    __slots__ = ()


class AsyncClusterCohortLock(AsyncCohortLock, AsyncClusterLock):
    __slots__ = ()


def _homes(place: ClusterPlace) -> Iterator[NodeHome]:
    return (node.home for node in place.all_nodes())


def cluster_backend(place: ClusterPlace, settings: Settings, locks: "AsyncLocks") -> Backend:
    known = weakref.ref(locks)
    place.furnish(lambda node: NodeHome(known, settings, node))
    return Backend(
        AsyncClusterLock,
        ClusterDriver,
        ClusterTransport,
        lambda: AsyncClusterSemaphore,
        lambda: AsyncClusterCohortLock,
        lambda: _homes(place),
    )
