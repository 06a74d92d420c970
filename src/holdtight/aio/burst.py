"""One request to every node of a quorum at once, with as little in between as there can be: the case without a plan.

Replies are told within the read that brings them. Whatever is not usual is left in `replies` for a plan to go on with.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import hiredis

from holdtight.aio.connection import Connection
from holdtight.aio.fan import MOST_OWED, QuorumTransport
from holdtight.errand import Errand
from holdtight.plan import LinkDown, ServerSaid, Step
from holdtight.quorum import SILENT_SECONDS
from holdtight.redis.store import LONGEST_PATIENCE

__all__ = ["Burst", "ready"]


def ready(transport: QuorumTransport) -> list[Connection] | None:
    """The connections to all nodes, if every one of them can be asked as far as is known."""
    found: list[Connection] = []
    for node in transport.nodes:
        connection = node.connection
        if connection is None or not connection.alive or connection.owed >= MOST_OWED:
            return None
        if connection.waiting_for(LONGEST_PATIENCE) > SILENT_SECONDS:
            return None
        found.append(connection)
    return found


class Burst:
    """`steps` are what the requests are known by. A yes is 1, begins with it, or is a text; a no begins with 0."""

    def __init__(self, transport: QuorumTransport, steps: Sequence[Step], *, enough: int, too_many: int) -> None:
        self._transport = transport
        self._steps = steps
        self._enough = enough
        self._too_many = too_many
        self._yes = self._no = 0
        self.replies: list[Any] = [None] * len(steps)
        self._over: asyncio.Future[None] = transport.loop.create_future()

    async def run(self, connections: Sequence[Connection], requests: Sequence[bytes], patience: float) -> None:
        """Until enough have said yes, too many no, or all have answered. When the patience is over, those who have not
        are answered for."""
        for index, connection in enumerate(connections):
            connection.ask_for(_Slot(self, index, connection, requests[index]), requests[index], LONGEST_PATIENCE)
        if self._over.done():
            return
        timer = self._transport.loop.call_later(patience, self._lose_patience)
        try:
            await self._over
        finally:
            timer.cancel()
            self._over.cancel()  # nobody waits any more

    @property
    def over(self) -> bool:
        return self._over.done()

    def told(self, index: int, reply: Any) -> None:
        if self._over.done():
            return
        self.replies[index] = reply
        kind = reply.__class__
        word = reply if kind is int else reply[0] if kind is list else 1 if kind is bytes else None
        if word == 1:
            self._yes += 1
        elif word == 0:
            self._no += 1
        if self._yes >= self._enough or self._no >= self._too_many or None not in self.replies:
            self._over.set_result(None)

    def failed(self, index: int, connection: Connection, error: LinkDown) -> None:
        transport, step = self._transport, self._steps[index]
        transport.breakers[index].failed_once(transport.place.clock(), str(error), connection)
        if step.undo:
            place = transport.nodes[index].place
            place.post.keeper.ask(Errand(place, step.otherwise or step))
        self.told(index, error)

    def refused(self, index: int, connection: Connection, request: bytes, reply: hiredis.ReplyError) -> None:
        step = self._steps[index]
        # A vote that nobody waits for is not sent again: what undoes it may have been carried out already.
        wanted = step.undo or not self._over.done()
        if str(reply).startswith("NOSCRIPT") and request and connection.alive and wanted:
            connection.ask_for(_Slot(self, index, connection, b""), step.replacement(request), LONGEST_PATIENCE)
        else:
            self.told(index, ServerSaid(str(reply)))

    def _lose_patience(self) -> None:
        for index, reply in enumerate(self.replies):
            if reply is None:
                self.replies[index] = LinkDown("it did not answer in time", sent=True)
        if not self._over.done():
            self._over.set_result(None)


class _Slot:
    """What one node owes a burst."""

    __slots__ = ("_burst", "_connection", "_index", "_request", "_told")

    def __init__(self, burst: Burst, index: int, connection: Connection, request: bytes) -> None:
        self._burst = burst
        self._index = index
        self._connection = connection
        self._request = request
        self._told = False

    def done(self) -> bool:
        return self._told

    def set_result(self, reply: Any) -> None:
        self._told = True
        if isinstance(reply, hiredis.ReplyError):
            self._burst.refused(self._index, self._connection, self._request, reply)
        else:
            self._burst.told(self._index, reply)

    def set_exception(self, error: LinkDown) -> None:
        self._told = True
        self._burst.failed(self._index, self._connection, error)
