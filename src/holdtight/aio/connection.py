"""One multiplexed connection on one event loop: no streams, no reader task, no timer per request.

Connecting happens in a thread with the same code that blocking callers use; then the socket is handed to the
loop. Everything that is asked for in one turn of the loop goes out in one write, and after every so many requests
within a turn, so that client and server do not run in lockstep.

# Invariants:
# - `_pending` and `deadlines` hold who is owed and a deadline per request under way, in the order of the requests;
# - a future that is done (answered, cancelled, out of patience) stays in line to take its reply;
# - `_sweep_at` is at or before the earliest deadline of all that are pending;
# - a bell for an owner that is not listening (yet) is kept: reply and message may come in one read, before the
#   task that will park has run.
"""

import asyncio
from collections import deque
from typing import Any

import hiredis

from holdtight.base.plan import Bell, LinkDown
from holdtight.base.process import tell_of_fork
from holdtight.base.runtime import Runtime
from holdtight.base.values import Owner
from holdtight.stores.boundary import Link
from holdtight.stores.redis.link import bell_for

__all__ = ["Connection"]

FLUSH_AFTER = 32
HELD_UP = 0.05
MOST_UNHEARD = 1024
_NEVER = float("inf")
_Push = hiredis.PushNotification


class Connection:
    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop, runtime: Runtime) -> None:
        self._link = link
        self._runtime = runtime
        self._loop = loop
        self.inbox = link.inbox
        self.inbox_word = link.inbox_word
        self.alive = True
        self._new_future = loop.create_future
        self._call_soon = loop.call_soon
        self._clock = loop.time
        self._pending: deque[Any] = deque()
        self.deadlines: deque[float] = deque()
        self._out: list[bytes] = []
        self._rest = b""
        self._sweep_at = _NEVER
        self._sweeper: asyncio.TimerHandle | None = None
        self._listeners: dict[Owner, asyncio.Future[Bell | None]] = {}
        self._unheard: dict[Owner, Bell] = {}
        self.knows: set[Any] = set()
        """The scripts that the server has answered to, for who must be sure that it knows them."""
        self._attach()
        tell_of_fork(self)

    def _attach(self) -> None:
        self._link.stop_blocking()
        self._fd = self._link.fileno()
        self._loop.add_reader(self._fd, self._readable)

    def _detach(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)

    def ask(self, request: bytes, patience: float) -> "asyncio.Future[Any]":
        """Sends with this turn's other requests. The future ends with the reply, or with LinkDown."""
        future = self._new_future()
        if not self.add(future, request, self._clock() + patience):
            future.set_exception(LinkDown("the connection is closed", sent=False))
        return future

    def add(self, owed: Any, request: bytes, deadline: float) -> bool:
        """False if the connection is closed."""
        if not self.alive:
            return False
        self._pending.append(owed)
        self.deadlines.append(deadline)
        out = self._out
        out.append(request)
        if len(out) == 1:
            self._call_soon(self._flush)
        elif len(out) >= FLUSH_AFTER:
            self._flush()
        if deadline < self._sweep_at:
            self._arm(deadline)
        return True

    def _flush(self) -> None:
        if not self._out or not self.alive:
            return
        data = b"".join(self._out) if len(self._out) > 1 else self._out[0]
        self._out = []
        if self._rest:
            self._rest += data
            return
        try:
            self._rest = self._link.push_out(data)
        except LinkDown as down:
            self.fail(down)
            return
        if self._rest:
            self._loop.add_writer(self._fd, self._writable)

    def _writable(self) -> None:
        try:
            self._rest = self._link.push_out(self._rest)
        except LinkDown as down:
            self.fail(down)
            return
        if not self._rest:
            self._loop.remove_writer(self._fd)

    def _readable(self) -> None:
        try:
            items = self._link.pump()
        except (LinkDown, hiredis.ProtocolError) as error:
            self.fail(error if isinstance(error, LinkDown) else LinkDown(str(error), sent=True))
            return
        self._take(items)

    def _take(self, items: list[Any]) -> None:
        take, take_deadline = self._pending.popleft, self.deadlines.popleft
        for item in items:
            if item.__class__ is _Push:
                rung = bell_for(item)
                if rung is not None:
                    self._ring(*rung)
                continue
            try:
                future = take()
                take_deadline()
            except IndexError:
                self._answers_too_much()
                return
            if not future.done():
                future.set_result(item)

    def _answers_too_much(self) -> None:
        self.fail(LinkDown("the server answered more than was asked", sent=True))

    # Bells.

    def _ring(self, owner: Owner, bell: Bell) -> None:
        listener = self._listeners.pop(owner, None)
        if listener is not None and not listener.done():
            listener.set_result(bell)
            return
        self._unheard[owner] = bell
        if len(self._unheard) > MOST_UNHEARD:
            del self._unheard[next(iter(self._unheard))]

    async def park(self, owner: Owner, until: float) -> Bell | None:
        """Until a bell for this owner, or until the time has come."""
        bell = self._unheard.pop(owner, None)
        if bell is not None:
            return bell
        if not self.alive:
            raise LinkDown("the connection is closed", sent=False)
        if until <= self._runtime.clock():
            return None
        listener: asyncio.Future[Bell | None] = self._new_future()
        self._listeners[owner] = listener
        timer = self._runtime.call_at(self._loop, until, _time_is_up, listener)
        try:
            return await listener
        finally:
            timer.cancel()
            if self._listeners.get(owner) is listener:
                del self._listeners[owner]

    def wake(self) -> None:
        """Ends all parks, as if their time had come."""
        for listener in self._listeners.values():
            _time_is_up(listener)

    def listen(self, owner: Owner, listener: "asyncio.Future[Bell | None]") -> None:
        """For who waits for the first of several connections to ring."""
        bell = self._unheard.pop(owner, None)
        if bell is None:
            self._listeners[owner] = listener
        elif not listener.done():
            listener.set_result(bell)

    def unlisten(self, owner: Owner, listener: "asyncio.Future[Bell | None]") -> None:
        if self._listeners.get(owner) is listener:
            del self._listeners[owner]

    # Patience and ends.

    @property
    def owed(self) -> int:
        return len(self._pending)

    def waiting_for(self, patience: float) -> float:
        """For how long the oldest request has been under way, if all are made with that patience."""
        return self._clock() - (self.deadlines[0] - patience) if self.deadlines else 0.0

    @property
    def idle(self) -> bool:
        """Nobody waits for an answer or a bell."""
        return not self._pending and not self._listeners

    @property
    def silent(self) -> bool:
        """Somebody has run out of patience with it, and it has said nothing since."""
        return bool(self._pending) and self._clock() >= self.deadlines[0]

    def _arm(self, deadline: float) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_at = deadline
        self._sweeper = self._loop.call_at(deadline, self._sweep)

    def _sweep(self) -> None:
        """A reply that does not come in time ends the connection: should it never come, all later ones would be taken
        for the answers to the requests before theirs."""
        self._sweeper = None
        due, self._sweep_at = self._sweep_at, _NEVER
        now = self._clock()
        if now > due + HELD_UP:
            self._arm(now + HELD_UP)  # the loop was blocked, not the server silent: first see what has come
            return
        earliest = min(self.deadlines, default=_NEVER)
        if now >= earliest:
            self.fail(LinkDown("it did not answer in time", sent=True, silent=True))
        elif earliest < _NEVER:
            self._arm(max(earliest, now + 0.001))

    def fail(self, cause: LinkDown) -> None:
        """The connection is of no use any more: everybody who waits on it is told."""
        if not self.alive:
            return
        self.alive = False
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._detach()
        self._link.close()
        pending, self._pending = self._pending, deque()
        self.deadlines.clear()
        listeners, self._listeners = self._listeners, {}
        for owed in pending:
            self._let_down(owed, LinkDown(cause.cause, sent=True, stale=cause.stale, silent=cause.silent))
        for listener in listeners.values():
            if not listener.done():
                listener.set_exception(LinkDown(cause.cause, sent=False))

    def _let_down(self, owed: Any, error: LinkDown) -> None:
        if not owed.done():
            owed.set_exception(error)
            if isinstance(owed, asyncio.Future):
                owed.exception()  # who asked is told; where the loop ends before, nobody minds

    def close(self) -> None:
        self._flush()
        self.fail(LinkDown("the client was closed", sent=False))

    def discard(self) -> None:
        """Its loop is closed: nobody is left to be told."""
        self.alive = False
        self._link.close()

    def after_fork(self) -> None:
        self.alive = False
        self._link.abandon()


def _time_is_up(listener: "asyncio.Future[Bell | None]") -> None:
    if not listener.done():
        listener.set_result(None)
