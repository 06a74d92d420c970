"""Counts replicas for all tasks of an event loop, on a connection of its own: nobody waits behind another's WAIT.

A round is one mark and one WAIT (see stores/redis/acks.py), and one round is under way at a time. It counts for all
tasks whose grants were answered before it left: replicas acknowledge positions in one stream, and the mark comes after
those grants.

Invariants:
- a task that has joined is in `_joined`, or in the round under way;
- every round ends: by its answer, by the connection's end, or by the connection's time limit.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdtight.aio.transport import Transport, ignore
from holdtight.base.plan import SLOT_LEFT, Acks, LinkDown, ServerSaid
from holdtight.stores.times import LOOK_SECONDS

if TYPE_CHECKING:
    from holdtight.aio.connection import Connection

__all__ = ["Barrier"]

_NEVER = float("inf")


class Joined(NamedTuple):
    acks: Acks
    until: float
    counted: "asyncio.Future[int]"


class Barrier:
    def __init__(self, transport: Transport) -> None:
        """`transport` is used for nothing else."""
        self._transport = transport
        self._place = transport.place
        self._joined: list[Joined] = []
        self._under_way = False
        self._ends = 0.0
        """When the round under way is over at the latest."""

    @property
    def in_use(self) -> bool:
        return self._under_way

    async def count(self, acks: Acks) -> int:
        """How many replicas have everything that was answered before this call."""
        transport = self._transport
        if acks.node is not None and acks.node is not self._place:
            raise LinkDown(SLOT_LEFT, sent=False)
        until = self._place.clock() + acks.seconds
        counted: asyncio.Future[int] = transport.loop.create_future()
        self._joined.append(Joined(acks, until, counted))
        if not self._under_way:
            self._under_way = True
            transport.loop.call_soon(self._begin)  # the other answers of this turn come along
        if self._ends <= until + LOOK_SECONDS:
            return await counted
        # The round that is under way may last longer than this task waits.
        timer = self._place.runtime.call_at(transport.loop, until + LOOK_SECONDS, _time_is_up, counted)
        try:
            return await counted
        finally:
            timer.cancel()

    def _begin(self) -> None:
        joined = [each for each in self._joined if not each.counted.done()]
        if not joined:
            self._joined = joined
            self._under_way = False
            return
        connection = self._transport.ready()
        if connection is None:
            self._joined = joined
            self._ends = _NEVER
            for each in joined:
                self._place.runtime.call_at(self._transport.loop, each.until + LOOK_SECONDS, _time_is_up, each.counted)
            self._transport.begin_connecting().add_done_callback(self._connected)
            return
        self._joined = []
        self._ask(connection, joined)

    def _connected(self, connecting: "asyncio.Future[Connection]") -> None:
        error = connecting.exception()
        if error is None:
            self._begin()
            return
        joined, self._joined = self._joined, []
        self._under_way = False
        for each in joined:
            _fail(each, error)

    def _ask(self, connection: "Connection", joined: list[Joined]) -> None:
        first = min(joined, key=lambda each: each.until)
        left = max(0.0, first.until - self._place.clock())
        steps = first.acks._replace(seconds=left).steps
        self._ends = first.until + LOOK_SECONDS
        asked = [connection.ask(step.packed(b""), step.patience) for step in steps]
        for mark in asked[:-1]:
            mark.add_done_callback(ignore)
        asked[-1].add_done_callback(partial(self._ended, joined, steps, asked))

    def _ended(self, joined: list[Joined], steps: Any, asked: "list[asyncio.Future[Any]]", _: object) -> None:
        count, error = 0, None
        try:
            values = [_value(step, future) for step, future in zip(steps, asked, strict=True)]
            count = Acks.counted(values)
        except (LinkDown, ServerSaid) as raised:
            error = raised
        for each in joined:
            if error is not None:
                _fail(each, error)
            elif each.counted.done():
                pass
            elif count >= each.acks.needed or self._place.clock() >= each.until:
                each.counted.set_result(count)
            else:
                self._joined.append(each)  # it has more time than the round had
        self._begin()

    def close(self) -> None:
        self._transport.close()


def _value(step: Any, future: "asyncio.Future[Any]") -> Any:
    reply = future.result()
    return ServerSaid(str(reply)) if isinstance(reply, Exception) else step.made_of(reply, 0.0)


def _fail(joined: Joined, error: BaseException) -> None:
    if joined.counted.done():
        return
    if isinstance(error, ServerSaid):
        error = ServerSaid(str(error))
    elif isinstance(error, LinkDown):
        error = LinkDown(error.cause, sent=False, stale=error.stale)
    else:
        error = LinkDown(str(error), sent=False)
    joined.counted.set_exception(error)
    joined.counted.exception()  # marks it as retrieved: its task may have been cancelled meanwhile


def _time_is_up(counted: "asyncio.Future[int]") -> None:
    if not counted.done():
        counted.set_result(0)
