"""Runs plans on a quorum on an event loop (see base/plan.py): asks all nodes at once, each on its one connection.

The connections drain replies that no task waits for: a future that is done stays queued to take its reply.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from types import TracebackType
from typing import Any

import hiredis

from holdtight.aio.broadcast import NodeConnection
from holdtight.aio.connection import Connection
from holdtight.aio.driver import PlanRunner, see_through
from holdtight.aio.transport import Transport, ignore
from holdtight.base.breaker import Breaker
from holdtight.base.plan import (
    NO_ANSWER,
    SLOW_TO_CONNECT,
    Bell,
    Fan,
    LinkDown,
    Park,
    ServerSaid,
    Step,
    Wish,
    client_closed,
)
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.boundary import Link, Place
from holdtight.stores.redis.client_records import record_request
from holdtight.stores.redis.handshake import InboxArgs
from holdtight.stores.redis.quorum_place import MOST_OWED_BY_ALL, SILENT_SECONDS, QuorumPlace
from holdtight.stores.redis.script import with_missing_script, with_script_body
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["FanDriver", "QuorumTransport"]


class NodeTransport(Transport):
    """The connection to one node."""

    def __init__(self, place: Place, index: int, loop: asyncio.AbstractEventLoop, *, connect_timeout: float) -> None:
        super().__init__(place, loop, connect_timeout=connect_timeout)
        self._index = index

    def _connection(self, link: Link) -> Connection:
        made = NodeConnection(link, self.loop, self.place.runtime)
        made.index = self._index
        return made

    def want(self) -> "asyncio.Future[Connection]":
        """Like `begin_connecting`, but connects even after the client was closed, for plans that still have to undo."""
        connecting = self.begin_connecting()
        self.wanted += 1
        return connecting

    def unwant(self) -> None:
        self.wanted -= 1


class QuorumTransport(Transport):
    """A client's connections on one loop, one to each node. It has no connection of its own."""

    def __init__(self, place: QuorumPlace, loop: asyncio.AbstractEventLoop, *, connect_timeout: float) -> None:
        super().__init__(place, loop, connect_timeout=connect_timeout)
        self.nodes = [
            NodeTransport(node, index, loop, connect_timeout=connect_timeout) for index, node in enumerate(place.nodes)
        ]
        self.breakers = [Breaker(node) for node in place.nodes]
        self.connections: tuple[NodeConnection, ...] = ()
        """The connections to all nodes. The tuple is replaced only when one of them changes."""
        self.inbox_args = InboxArgs(())
        """Their inboxes, encoded for requests."""
        self._knowing: tuple[Any, Sequence[Any]] = (None, ())
        self.plans = 0
        """The number of plans under way."""

    def all_ready(self) -> bool:
        """Whether every node can be asked, as far as is known: then `connections` has all of them."""
        due = self.loop.time() + LONGEST_PATIENCE - SILENT_SECONDS
        for connection in self.connections:
            if not connection.alive:
                return self._find_connections() and self.all_ready()
            deadlines = connection.deadlines
            if deadlines and (deadlines[0] < due or len(deadlines) >= MOST_OWED_BY_ALL):
                return False
        return bool(self.connections) or (self._find_connections() and self.all_ready())

    def _find_connections(self) -> bool:
        connections = [node.connection for node in self.nodes]
        found = [each for each in connections if isinstance(each, NodeConnection) and each.alive]
        if len(found) < len(self.nodes):
            self.connections = ()
            return False
        self.connections = tuple(found)
        self.inbox_args = InboxArgs([connection.inbox_word for connection in found])
        return True

    def all_know(self, script: object) -> bool:
        """Whether all nodes have answered to that script on these connections. Cached until one of them changes."""
        known, connections = self._knowing
        if known is script and connections is self.connections:
            return True
        for connection in self.connections:
            if script not in connection.knows:
                return False
        self._knowing = (script, self.connections)
        return True

    def rest(self) -> None:
        """Once the client is closed, connections stay only for plans under way, not for votes that no task waits for:
        owed undos go to the keeper."""
        if self.closed and not self.plans:
            self.close()

    @property
    def in_use(self) -> bool:
        return self.plans > 0 or any(node.in_use for node in self.nodes)

    def close(self) -> None:
        self.refuse()
        for node in self.nodes:
            node.close()


class FanDriver(PlanRunner):
    """Runs one plan. A context manager."""

    def __init__(self, transport: QuorumTransport) -> None:
        self._transport = transport
        self._place = transport.place
        self._clock = transport.place.clock
        self._loop = transport.loop

    def __enter__(self) -> "FanDriver":
        self._transport.plans += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.plans -= 1
        self._transport.rest()

    def _carry_out(self, wish: Wish) -> Coroutine[Any, Any, Any]:
        if isinstance(wish, Fan):
            return self._fan(wish)
        if isinstance(wish, Park):
            return self._park(wish)
        raise TypeError("a plan on a quorum asks all nodes or none")

    async def _fan(self, fan: Fan) -> Any:
        asking = _FanUnderWay(self._transport, fan)
        asking.start()
        over = asking.over
        if not over.done():
            timer = self._loop.call_later(fan.patience, asking.lose_patience)
            try:
                if not fan.undo:
                    await over
                elif (cancelled := await see_through(over)) is not None:
                    raise cancelled
            finally:
                timer.cancel()
                asking.end()
        else:
            asking.end()
        return fan.read(asking.answers)

    async def _park(self, park: Park) -> Bell | None:
        """Waits until any node rings, or until `park.until`."""
        if self._transport.closed:
            raise client_closed()
        listener: asyncio.Future[Bell | None] = self._loop.create_future()
        self._transport.pauses.add(listener)
        connections = [each for each in (node.ready() for node in self._transport.nodes) if each is not None]
        timer = self._place.runtime.call_at(self._loop, park.until, _time_is_up, listener)
        try:
            for connection in connections:
                connection.listen(park.owner, listener)
            bell = await listener
        finally:
            timer.cancel()
            self._transport.pauses.discard(listener)
            for connection in connections:
                connection.unlisten(park.owner, listener)
        if bell is None and self._transport.closed:
            raise client_closed()
        return bell


class _FanUnderWay:
    """One Fan under way."""

    def __init__(self, transport: QuorumTransport, fan: Fan) -> None:
        self._transport = transport
        self._clock = transport.place.clock
        self._fan = fan
        self.answers: list[Any] = [None] * len(transport.nodes)
        self._unsent: dict[int, Step] = {}
        self.over: asyncio.Future[None] = transport.loop.create_future()

    def start(self) -> None:
        for index, step in enumerate(self._fan.steps):
            if step is not None:
                self._ask(index, step)
        self._settle()

    def end(self) -> None:
        """No task waits any more. Undo steps that a node did not get go to the keeper."""
        if not self.over.done():
            self.over.cancel()
        for index, step in self._unsent.items():
            self._transport.nodes[index].unwant()
            if step.undo:
                self._leave_to_the_keeper(index, step)
        self._unsent = {}

    def lose_patience(self) -> None:
        for index, step in enumerate(self._fan.steps):
            if step is not None and self.answers[index] is None:
                slow = SLOW_TO_CONNECT if index in self._unsent else NO_ANSWER
                self.answers[index] = LinkDown(slow, sent=index not in self._unsent, silent=True)
        if not self.over.done():
            self.over.set_result(None)

    def _settle(self) -> None:
        if not self.over.done() and self._fan.certain(self.answers):
            self.over.set_result(None)

    def _ask(self, index: int, step: Step) -> None:
        node = self._transport.nodes[index]
        connection = node.ready()
        way = self._fan.after[index] if self._fan.after is not None else None
        if step.otherwise is not None and (connection is None or connection is not way):
            step = step.otherwise
        if connection is not None:
            self._send(index, step, connection)
            return
        breaker = self._transport.breakers[index]
        if breaker.is_open(self._clock()) and not node.connecting:
            self._refuse(index, step, breaker.answer())
            return
        self._unsent[index] = step
        node.want().add_done_callback(partial(self._connected, index, step))

    def _connected(self, index: int, step: Step, future: "asyncio.Future[Connection]") -> None:
        breaker = self._transport.breakers[index]
        cause = future.exception() if not future.cancelled() else client_closed()
        if cause is not None:
            breaker.failed_once(self._clock(), str(cause), future, refused=isinstance(cause, ServerSaid))
        else:
            breaker.worked()
        if self._unsent.pop(index, None) is None:
            return
        self._transport.nodes[index].unwant()
        if cause is not None:
            self._refuse(index, step, cause if isinstance(cause, ServerSaid) else LinkDown(str(cause), sent=False))
        else:
            self._send(index, step, future.result())
        self._settle()

    def _send(self, index: int, step: Step, connection: Connection) -> None:
        waiting = connection.waiting_for(LONGEST_PATIENCE)
        if connection.owed >= MOST_OWED_BY_ALL or (waiting > SILENT_SECONDS and not step.undo):
            silent = f"it has been silent for {waiting:.3g} s, {connection.owed} requests unanswered"
            self._refuse(index, step, LinkDown(silent, sent=False))
            return
        place = self._transport.nodes[index].place
        if place.client.announcement_due():
            connection.ask(record_request(place.client), LONGEST_PATIENCE).add_done_callback(ignore)
            place.runtime.keeper.watch(place)
        if self._fan.connections is not None:
            self._fan.connections[index] = connection
        request = step.packed(connection.inbox_word)
        if step.undo and step.script not in connection.knows:
            request = with_script_body(request)  # there may be no task left to handle NOSCRIPT
        asked = connection.ask(request, LONGEST_PATIENCE)
        asked.add_done_callback(partial(self._replied, index, step, connection, request, self._clock()))

    def _replied(
        self,
        index: int,
        step: Step,
        connection: Connection,
        request: bytes,
        sent: float,
        future: "asyncio.Future[Any]",
    ) -> None:
        if future.cancelled():
            return
        breaker = self._transport.breakers[index]
        error = future.exception()
        if error is not None:
            breaker.failed_once(self._clock(), str(error), connection)
            if step.undo:
                self._leave_to_the_keeper(index, step.otherwise or step)
            self._answer(index, error if isinstance(error, LinkDown) else LinkDown(str(error), sent=True))
            return
        breaker.worked()
        reply = future.result()
        if isinstance(reply, hiredis.ReplyError):
            # Do not repeat a vote that no caller waits for: its undo may have run already.
            wanted = step.undo or not self.over.done()
            again = with_missing_script(request, reply)
            if again is not None and connection.alive and wanted:
                asked = connection.ask(again, LONGEST_PATIENCE)
                asked.add_done_callback(partial(self._replied, index, step, connection, b"", self._clock()))
            else:
                if step.undo:
                    self._leave_to_the_keeper(index, step.otherwise or step)
                self._answer(index, ServerSaid(str(reply)))
            return
        connection.knows.add(step.script)
        self._answer(index, step.made_of(reply, sent))

    def _answer(self, index: int, answer: Any) -> None:
        if self.answers[index] is None and not self.over.done():
            self.answers[index] = answer
            self._settle()

    def _refuse(self, index: int, step: Step, cause: LinkDown | ServerSaid) -> None:
        if step.undo:
            self._leave_to_the_keeper(index, step)
        self.answers[index] = cause

    def _leave_to_the_keeper(self, index: int, step: Step) -> None:
        place = self._transport.nodes[index].place
        place.runtime.keeper.ask(DeferredUndo(place, step))


def _time_is_up(listener: "asyncio.Future[Bell | None]") -> None:
    if not listener.done():
        listener.set_result(None)
