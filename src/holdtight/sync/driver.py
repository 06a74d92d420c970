"""Runs plans by blocking (see base/plan.py for a driver's duties).

A waiting thread sleeps on its own link, which is subscribed to its own inbox: reply and bell arrive in order, without
a second thread in between.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, TypeVar

import hiredis

from holdtight.base.plan import (
    POLL_SECONDS,
    UNDO_SECONDS,
    Acks,
    Batch,
    Bell,
    Fan,
    LinkDown,
    Park,
    Plan,
    Step,
    Wish,
)
from holdtight.keeper.charges import TOUCH_SECONDS, DeferredUndo, StandingInLine
from holdtight.stores.boundary import Link
from holdtight.stores.redis.error_replies import is_passing
from holdtight.stores.redis.script import with_script_body
from holdtight.sync.pool import Transport

__all__ = ["Driver", "PlanRunner"]

R = TypeVar("R")


class PlanRunner(ABC):
    """The loop of every driver: carries out each wish of a plan, then sends the result or throws the error into it."""

    broken_off = False
    """An error other than LinkDown interrupted a step: the data read so far may be incomplete."""

    def run(self, plan: Plan[R]) -> R:
        try:
            return self._run(plan, None)
        except BaseException as error:
            if getattr(plan, "gi_frame", None) is None:
                raise
            return self._run(plan, error)  # raised between two steps: the plan does not know of it yet

    def _run(self, plan: Plan[R], error: BaseException | None) -> R:
        value: Any = None
        try:
            while True:
                try:
                    wish = plan.send(value) if error is None else plan.throw(error)
                except StopIteration as stop:
                    result: R = stop.value
                    return result
                value = error = None
                try:
                    value = self._carry_out(wish)
                except BaseException as raised:
                    if not isinstance(raised, LinkDown):
                        self.broken_off = True
                    error = raised
        finally:
            # The error refers to this frame and so to the caller's leases; a cycle would hide that these were dropped.
            del error, value

    @abstractmethod
    def _carry_out(self, wish: Wish) -> Any: ...


class Driver(PlanRunner):
    """Runs one plan: has the link that carries it and its place in the queue. A context manager."""

    def __init__(
        self, transport: Transport, link: Link | None = None, *, beyond: bool = False, touch_at: float = 0.0
    ) -> None:
        self._transport = transport
        self._place = transport.place
        self._clock = transport.place.clock
        self._beyond = beyond
        self._link = link
        self._standing: StandingInLine | None = None
        self._touch_at = touch_at

    def __enter__(self) -> "Driver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        link, self._link = self._link, None  # first, so that after an interrupt nothing uses the link any more
        self._stop_standing()
        if link is not None:
            self._transport.give(link)

    def _carry_out(self, wish: Wish) -> Any:
        assert not isinstance(wish, Fan), "there are no other nodes to ask"
        if isinstance(wish, Park):
            return self._park(wish)
        if isinstance(wish, Acks):
            return self._acks(wish)
        return self._batch(wish) if isinstance(wish, Batch) else self._step(wish)

    def _step(self, step: Step) -> Any:
        if step.undo:
            return self._undo(step)
        if self._link is None:
            self._link = self._transport.take(step.patience, beyond=self._beyond)
        try:
            return self._transport.perform(self._link, step)
        except LinkDown as down:
            self._drop_link(down)
            raise

    def _batch(self, batch: Batch) -> list[Any]:
        if self._link is None:
            self._link = self._transport.take(batch.steps[0].patience, beyond=self._beyond)
        try:
            return self._transport.perform_all(self._link, batch.steps)
        except LinkDown as down:
            self._drop_link(down)
            raise

    def _acks(self, acks: Acks) -> int:
        return acks.counted(self._batch(Batch(acks.steps)))

    def _undo(self, step: Step) -> Any:
        """Sends the undo on the link of the original request, whose unread replies come first. Without one, or if the
        server cannot do it now, asks the keeper."""
        link = self._link
        if link is None:
            self._defer(step)
            return None
        until = self._clock() + UNDO_SECONDS
        self._stop_standing()
        try:
            link.set_timeout(UNDO_SECONDS)
            link.send(with_script_body(step.packed(link.inbox_word)))
            reply = None
            while link.owed:
                link.set_timeout(until - self._clock())
                reply = link.reply()
        except BaseException:
            self._drop_link()
            self._defer(step)
            raise
        if not isinstance(reply, hiredis.ReplyError):
            return step.read(reply, until)
        refusal = self._transport.refusal(reply)
        if isinstance(refusal, LinkDown):
            self._drop_link()
        elif not is_passing(refusal):
            raise refusal
        self._defer(step)
        return None

    def _defer(self, step: Step) -> None:
        self._place.runtime.keeper.ask(DeferredUndo(self._place, step.otherwise or step))

    def _park(self, park: Park) -> Bell | None:
        link = self._link
        if link is None:
            self._transport.pause(park.until - self._clock())
            return None
        if not link.inbox:
            self._stand(park, link)
            # Without an inbox no bell can arrive: poll.
            import random

            self._transport.pause(min(park.until - self._clock(), random.uniform(*POLL_SECONDS)))
            return Bell() if self._clock() < park.until else None
        try:
            if park.touch is not None and self._standing is None:
                if not self._touch_at:
                    # Most waits end before the place in the queue needs a heartbeat: only longer ones go to the keeper.
                    self._touch_at = self._clock() + TOUCH_SECONDS
                bell = self._transport.park(link, park.owner, min(park.until, self._touch_at))
                if bell is not None or park.until <= self._touch_at:
                    return bell
                self._stand(park, link)
            return self._transport.park(link, park.owner, park.until)
        except LinkDown:
            if not self._transport.closed:  # a link that `close` woke reads no more, but the undo goes out on it
                self._drop_link()
            raise

    def _stand(self, park: Park, link: Link) -> None:
        """From now on the keeper sends the heartbeats that keep this waiter's place in the queue."""
        if park.touch is not None and self._standing is None:
            self._standing = StandingInLine(self._place, park.touch, link.inbox)
            self._place.runtime.keeper.add(self._standing, self._clock() - self._standing.interval)

    def _drop_link(self, down: LinkDown | None = None) -> None:
        self._stop_standing()
        link, self._link = self._link, None
        if link is not None:
            if down is None:
                self._transport.scrap(link)
            else:
                self._transport.lose(link, down)

    def _stop_standing(self) -> None:
        if self._standing is not None:
            self._standing.alive = False
            self._place.runtime.keeper.drop(self._standing)
            self._standing = None
