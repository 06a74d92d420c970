"""Runs plans on an event loop (see base/plan.py for a driver's duties)."""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

import hiredis

from holdtight.aio.connection import Connection
from holdtight.aio.transport import Transport, ignore
from holdtight.base.plan import (
    BROKEN_BEFORE_ACKS,
    CLOSED,
    POLL_SECONDS,
    UNDO_SECONDS,
    Acks,
    Batch,
    Bell,
    Fan,
    LinkDown,
    Park,
    Plan,
    ServerSaid,
    Step,
    Wish,
    client_closed,
)
from holdtight.keeper.charges import DeferredUndo, StandingInLine
from holdtight.stores.redis.error_replies import is_passing
from holdtight.stores.redis.script import with_script_body

__all__ = ["Driver", "PlanRunner", "see_through"]

R = TypeVar("R")


class PlanRunner(ABC):
    """The loop of every driver: carries out each wish of a plan, then sends the result or throws the error into it."""

    async def run(self, plan: Plan[R]) -> R:
        value: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    wish = plan.send(value) if error is None else plan.throw(error)
                except StopIteration as stop:
                    result: R = stop.value
                    return result
                value = error = None
                try:
                    value = await self._carry_out(wish)
                except BaseException as raised:
                    error = raised
        finally:
            # The error refers to this frame and so to the caller's leases; a cycle would hide that these were dropped.
            del error, value

    @abstractmethod
    def _carry_out(self, wish: Wish) -> Coroutine[Any, Any, Any]: ...


class Driver(PlanRunner):
    """Runs one plan: has the connection that carries it and its place in the queue. A context manager."""

    def __init__(self, transport: Transport, connection: Connection | None = None) -> None:
        self._transport = transport
        self._place = transport.place
        self._clock = transport.place.clock
        self._connection = connection
        self._standing: StandingInLine | None = None

    def __enter__(self) -> "Driver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_standing()
        self._transport.rest()

    def _carry_out(self, wish: Wish) -> Coroutine[Any, Any, Any]:
        assert not isinstance(wish, Fan), "there are no other nodes to ask"
        if isinstance(wish, Park):
            return self._park(wish)
        if isinstance(wish, Batch):
            return self._batch(wish)
        if isinstance(wish, Acks):
            return self._acks(wish)
        return self._undo(wish) if wish.undo else self._step(wish)

    async def _step(self, step: Step) -> Any:
        return await self._transport.perform(await self._connected(step), step)

    async def _batch(self, batch: Batch) -> list[Any]:
        return await self._transport.perform_all(await self._connected(batch.steps[0]), batch.steps)

    async def _acks(self, acks: Acks) -> int:
        connection = self._connection
        if connection is None or not connection.alive:
            raise LinkDown(CLOSED, sent=False)
        count = await self._transport.barrier.count(acks)
        if not connection.alive:
            raise LinkDown(BROKEN_BEFORE_ACKS, sent=False)
        return count

    async def _connected(self, step: Step) -> Connection:
        if self._connection is None or not self._connection.alive:
            self._stop_standing()
            self._connection = await self._transport.connect(step.patience)
        return self._connection

    async def _undo(self, step: Step) -> Any:
        """Sends the undo on the connection of the original request, shielded from cancellation. Without one, or if the
        server cannot do it now, asks the keeper."""
        self._stop_standing()
        connection = self._connection
        if connection is None or not connection.alive:
            self._defer(step)
            return None
        sent = self._clock()
        silent = connection.silent
        asked = connection.ask(with_script_body(step.packed(connection.inbox_word)), UNDO_SECONDS)
        if silent:
            # It goes out in order, but waiting for the answer is pointless.
            asked.add_done_callback(ignore)
            self._defer(step)
            return None
        cancelled = await see_through(asked)
        refusal: LinkDown | ServerSaid | None = None
        try:
            reply = asked.result()
        except LinkDown as down:
            reply, refusal = None, down
        if isinstance(reply, hiredis.ReplyError):
            refusal = self._transport.refusal(connection, reply)
        if refusal is not None and (isinstance(refusal, LinkDown) or is_passing(refusal)):
            self._defer(step)
            reply = refusal = None
        if cancelled is not None:
            raise cancelled
        if refusal is not None:
            raise refusal
        return None if reply is None else step.read(reply, sent)

    def _defer(self, step: Step) -> None:
        self._place.runtime.keeper.ask(DeferredUndo(self._place, step.otherwise or step))

    async def _park(self, park: Park) -> Bell | None:
        bell = None if self._transport.closed else await self._wait(park)
        if bell is None and self._transport.closed:
            raise client_closed()
        return bell

    async def _wait(self, park: Park) -> Bell | None:
        connection = self._connection
        seconds = max(0.0, park.until - self._clock())
        if connection is None or park.touch is None:
            await self._transport.pause(park.until)
            return None
        if self._standing is None:
            gone = self._transport.loop.is_closed
            self._standing = StandingInLine(self._place, park.touch, connection.inbox, gone)
            self._place.runtime.keeper.add(self._standing, self._clock())
        if not connection.inbox:
            # Without an inbox no bell can arrive: poll.
            await asyncio.sleep(min(seconds, random.uniform(*POLL_SECONDS)))
            return Bell() if self._clock() < park.until else None
        return await connection.park(park.owner, park.until)

    def _stop_standing(self) -> None:
        if self._standing is not None:
            self._standing.alive = False
            self._place.runtime.keeper.drop(self._standing)
            self._standing = None


async def see_through(future: "asyncio.Future[Any]") -> asyncio.CancelledError | None:
    """Waits until the future is done, even if cancelled. Returns the cancellation that came meanwhile, or None."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
