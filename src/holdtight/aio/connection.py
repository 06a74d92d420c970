"""One multiplexed connection on one event loop: no streams, no reader task, no timer per request.

A thread connects with the same code that blocking callers use; then the loop takes over the socket. All requests of one
turn of the loop go out in one write, and after every FLUSH_AFTER requests within a turn, so that client and server do
not run in lockstep.

Invariants:
- `_pending` and `deadlines` have one entry per request under way, in the order of the requests;
- a future that is done (answered, cancelled, out of patience) stays in `_pending` to take its reply;
- `_sweep_at` is at or before the earliest deadline of all pending requests;
- a bell for an owner that does not listen (yet) is kept: reply and bell may come in one read, before the task that
  will park has run.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis

from holdtight.base.plan import CLOSED, NO_ANSWER, Bell, LinkDown, client_closed
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
        self._alone = True
        """The last read had one reply: few tasks use this connection. Under load, requests wait for the end of the turn
        and leave in one write."""
        self._sweep_at = _NEVER
        self._sweeper: asyncio.TimerHandle | None = None
        self._listeners: dict[Owner, asyncio.Future[Bell | None]] = {}
        self._unheard: dict[Owner, Bell] = {}
        self.knows: set[Any] = set()
        """Scripts that the server has answered to, for callers that must avoid NOSCRIPT."""
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
        """Sends with the other requests of this turn. The future ends with the reply, or with LinkDown."""
        future = self._new_future()
        if not self.add(future, request, self._clock() + patience):
            future.set_exception(LinkDown(CLOSED, sent=False))
        return future

    def ask_all(self, requests: Sequence[bytes], patience: float) -> "asyncio.Future[list[Any]]":
        """Sends all requests in one write. The future ends with all their replies, or with LinkDown."""
        several = _RepliesOfOneWrite(self._new_future(), len(requests))
        deadline = self._clock() + patience
        if not self.add(several, b"".join(requests), deadline):
            several.set_exception(LinkDown(CLOSED, sent=False))
        elif self.alive:
            for _ in requests[1:]:
                self._pending.append(several)
                self.deadlines.append(deadline)
        return several.future

    def add(self, owed: Any, request: bytes, deadline: float) -> bool:
        """Queues a request. False if the connection is closed."""
        if not self.alive:
            return False
        self._pending.append(owed)
        self.deadlines.append(deadline)
        out = self._out
        out.append(request)
        if len(out) == 1:
            if self._alone and len(self._pending) == 1:
                self._flush()  # nothing else is under way: another turn of the loop would only cost time
            else:
                self._call_soon(self._end_turn)
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

    _end_turn = _flush

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
        self._alone = len(items) < 2
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
        """Waits for a bell for this owner, until `until`."""
        bell = self._unheard.pop(owner, None)
        if bell is not None:
            return bell
        if not self.alive:
            raise LinkDown(CLOSED, sent=False)
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
        """Ends all parks, as at a timeout."""
        for listener in self._listeners.values():
            _time_is_up(listener)

    def listen(self, owner: Owner, listener: "asyncio.Future[Bell | None]") -> None:
        """For a task that waits for the first bell of several connections."""
        bell = self._unheard.pop(owner, None)
        if bell is None:
            self._listeners[owner] = listener
        elif not listener.done():
            listener.set_result(bell)

    def unlisten(self, owner: Owner, listener: "asyncio.Future[Bell | None]") -> None:
        if self._listeners.get(owner) is listener:
            del self._listeners[owner]

    # Timeouts and closing.

    @property
    def owed(self) -> int:
        return len(self._pending)

    def waiting_for(self, patience: float) -> float:
        """The age of the oldest request under way, if all were sent with this patience."""
        return self._clock() - (self.deadlines[0] - patience) if self.deadlines else 0.0

    @property
    def idle(self) -> bool:
        """No task waits for a reply or a bell."""
        return not self._pending and not self._listeners

    @property
    def silent(self) -> bool:
        """A request has timed out, and nothing has arrived since."""
        return bool(self._pending) and self._clock() >= self.deadlines[0]

    def _arm(self, deadline: float) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_at = deadline
        self._sweeper = self._loop.call_at(deadline, self._sweep)

    def _sweep(self) -> None:
        """An overdue reply ends the connection: if it never came, each later reply would be taken for the answer to an
        earlier request."""
        self._sweeper = None
        due, self._sweep_at = self._sweep_at, _NEVER
        now = self._clock()
        if now > due + HELD_UP:
            self._arm(now + HELD_UP)  # the loop was blocked, the server not silent: read first what has arrived
            return
        earliest = min(self.deadlines, default=_NEVER)
        if now >= earliest:
            self.fail(LinkDown(NO_ANSWER, sent=True, silent=True))
        elif earliest < _NEVER:
            self._arm(max(earliest, now + 0.001))

    def fail(self, cause: LinkDown) -> None:
        """Closes the connection and tells all waiting tasks."""
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
                owed.exception()  # marks it as retrieved: if the loop ends first, there must be no warning

    def close(self) -> None:
        self._flush()
        self.fail(client_closed())

    def discard(self) -> None:
        """Its loop is closed: no task is left to be told."""
        self.alive = False
        self._link.close()

    def after_fork(self) -> None:
        self.alive = False
        self._link.abandon()


class _RepliesOfOneWrite:
    """Stands in line for several replies, and makes one result of them."""

    __slots__ = ("_found", "_replies", "future")

    def __init__(self, future: "asyncio.Future[list[Any]]", replies: int) -> None:
        self.future = future
        self._replies = replies
        self._found: list[Any] = []

    def done(self) -> bool:
        return self.future.done()

    def set_result(self, reply: Any) -> None:
        self._found.append(reply)
        if len(self._found) == self._replies:
            self.future.set_result(self._found)

    def set_exception(self, error: LinkDown) -> None:
        self.future.set_exception(error)
        self.future.exception()  # marks it as retrieved: if the loop ends first, there must be no warning


def _time_is_up(listener: "asyncio.Future[Bell | None]") -> None:
    if not listener.done():
        listener.set_result(None)
