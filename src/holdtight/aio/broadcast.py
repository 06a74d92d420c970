"""One request to every node of a quorum at once, with minimal overhead: the fast path without a plan.

Each connection passes replies to the Broadcast within the read that brings them: only the end of the broadcast needs a
turn of the loop. Everything unusual stays in `replies`, and a plan continues from there.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.aio.connection import Connection
from holdtight.base.plan import CLOSED, NO_ANSWER, LinkDown, ServerSaid, Step
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.redis.link import bell_for
from holdtight.stores.redis.script import with_missing_script
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.aio.quorum_driver import QuorumTransport

__all__ = ["Broadcast", "NodeConnection"]

_Push = hiredis.PushNotification


class Broadcast:
    """A yes is 1, a list that begins with 1, or bytes; a no is a list that begins with 0. `over` is done
    when enough nodes said yes (its result is then 1), too many said no, or all have answered. Builds a Step for a node
    only in unusual cases."""

    __slots__ = (
        "_no",
        "_requests",
        "_timer",
        "_too_many",
        "_transport",
        "enough",
        "over",
        "replies",
        "step_for",
        "wanted",
        "yes",
    )

    def __init__(
        self,
        transport: "QuorumTransport",
        requests: Sequence[bytes],
        step_for: Callable[[int], Step],
        *,
        enough: int,
        too_many: int,
    ) -> None:
        self._transport = transport
        self._requests = requests
        self.step_for = step_for
        self.enough = enough
        self._too_many = too_many
        self.yes = self._no = 0
        self.replies: list[Any] = [None] * len(requests)
        self.wanted = True
        """Replies still count. Stays True when the waiting task is cancelled, until `end` is called."""
        self.over: asyncio.Future[Any] = transport.loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    def send(self, connections: "Sequence[NodeConnection]", patience: float) -> None:
        """When the patience is over, missing replies become LinkDown. The longest patience needs no timer: the
        connections enforce it themselves."""
        loop = self._transport.loop
        deadline = loop.time() + LONGEST_PATIENCE
        for connection, request in zip(connections, self._requests, strict=True):
            if not connection.add(self, request, deadline):
                self.failed(connection.index, connection, LinkDown(CLOSED, sent=False))
        if patience < LONGEST_PATIENCE and self.wanted:
            self._timer = loop.call_later(patience, self._lose_patience)

    def end(self, outcome: Any) -> None:
        """Ends the broadcast; later replies do not count."""
        self.wanted = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.over.done():
            self.over.set_result(outcome)
        if self._transport.closed:
            self._transport.loop.call_soon(self._transport.rest)

    def told(self, index: int, connection: "NodeConnection", reply: Any, *, again: bool = True) -> None:
        """Handles every reply but the usual yes on the first request."""
        if isinstance(reply, hiredis.ReplyError):
            step = self.step_for(index)
            # Do not repeat a vote that no caller waits for: its undo may have run already.
            wanted = step.undo or (self.wanted and not self.over.done())
            request = with_missing_script(self._requests[index], reply)
            if request is not None and again and connection.alive and wanted:
                asked = connection.ask(request, LONGEST_PATIENCE)
                asked.add_done_callback(lambda future: self._told_at_last(index, connection, future))
                return
            self._leave_undone(index, step)
            reply = ServerSaid(str(reply))
        self._count(index, reply)

    def failed(self, index: int, connection: "NodeConnection", error: LinkDown) -> None:
        transport, step = self._transport, self.step_for(index)
        transport.breakers[index].failed_once(transport.place.clock(), str(error), connection)
        self._leave_undone(index, step)
        self._count(index, error)

    def _leave_undone(self, index: int, step: Step) -> None:
        """Hands an undo step to the keeper."""
        if step.undo:
            place = self._transport.nodes[index].place
            place.runtime.keeper.ask(DeferredUndo(place, step.otherwise or step))

    def _told_at_last(self, index: int, connection: "NodeConnection", future: "asyncio.Future[Any]") -> None:
        if future.cancelled():
            return
        error = future.exception()
        if isinstance(error, LinkDown):
            self.failed(index, connection, error)
        else:
            self.told(index, connection, future.result(), again=False)

    def _count(self, index: int, reply: Any) -> None:
        if not self.wanted:
            return
        self.replies[index] = reply
        kind = reply.__class__
        word = 1 if kind is bytes else reply if kind is int else reply[0] if kind is list else None
        if word == 1:
            self.yes += 1
        elif word == 0:
            self._no += 1
        if self.yes >= self.enough:
            self.end(1)
        elif self._no >= self._too_many or None not in self.replies:
            self.end(self)

    def _lose_patience(self) -> None:
        for index, reply in enumerate(self.replies):
            if reply is None:
                self.replies[index] = LinkDown(NO_ANSWER, sent=True, silent=True)
        self.end(self)


class NodeConnection(Connection):
    """A connection to one node of a quorum. A pending entry may be a Broadcast, the same on all connections."""

    index = 0
    """The node's index in the quorum."""

    def _take(self, items: list[Any]) -> None:
        index = self.index
        take, take_deadline = self._pending.popleft, self.deadlines.popleft
        for item in items:
            kind = item.__class__
            if kind is _Push:
                rung = bell_for(item)
                if rung is not None:
                    self._ring(*rung)
                continue
            try:
                owed = take()
                take_deadline()
            except IndexError:
                self._answers_too_much()
                return
            if owed.__class__ is not Broadcast:
                if not owed.done():
                    owed.set_result(item)
            elif kind is bytes or item == 1:
                if owed.wanted:
                    owed.replies[index] = item
                    owed.yes += 1
                    if owed.yes == owed.enough:
                        owed.end(1)
                    elif None not in owed.replies:
                        owed.end(owed)
            else:
                owed.told(index, self, item)

    def _let_down(self, owed: Any, error: LinkDown) -> None:
        if owed.__class__ is Broadcast:
            owed.failed(self.index, self, error)
        else:
            super()._let_down(owed, error)
