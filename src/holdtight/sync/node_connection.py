"""Non-blocking connections to the nodes of a quorum, for blocking code: the thread that uses them polls them.

A node connection may owe replies: requests go out one after another, and each reply goes to the request it belongs to,
even if no caller waits for it any more. So a slow node keeps its connection, in order, and a hung node costs only the
requests that were sent before it was noticed.

Invariants:
- a node connection is used by one thread at a time, as part of a node group (node_group.py);
- `pending` has one entry for every reply that is owed, in order;
- a node connection is never opened in the caller's thread: a node that does not answer must not delay the others.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import hiredis

from holdtight.base import process
from holdtight.base.breaker import Breaker
from holdtight.base.plan import NO_THREAD, TOO_MANY_REPLIES, LinkDown, ServerSaid, Step
from holdtight.base.values import Owner
from holdtight.base.wake_pipe import WakePipe
from holdtight.errors import quotable
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.boundary import Link, Place
from holdtight.stores.redis.link import SocketLink, bell_for
from holdtight.stores.redis.quorum_place import MOST_OWED, SILENT_SECONDS
from holdtight.stores.redis.script import with_missing_script

__all__ = ["NOBODYS", "Answers", "Broadcast", "CallerWakePipe", "NodeConnection", "PendingReply", "Pool", "may_ask"]

MOST_CONNECTING = 16
"""Threads that connect to one node at the same time."""

_Push = hiredis.PushNotification


class Answers:
    """Collects the answers of one Fan. `raw`: replies are stored as they come, and the caller decodes them."""

    __slots__ = ("answers", "forgotten", "wanted")

    raw = False

    def __init__(self, count: int) -> None:
        self.answers: list[Any] = [None] * count
        self.wanted = True
        """A caller waits for them."""
        self.forgotten = False
        """A node answered NOSCRIPT."""


NOBODYS = Answers(0)
NOBODYS.wanted = False


class PendingReply:
    """A reply that one node owes to one caller."""

    __slots__ = ("_request", "_step", "collected", "sent")

    def __init__(self, collected: Answers, step: Step, request: bytes, sent: float) -> None:
        self.collected = collected
        self._step = step
        self._request = request
        self.sent = sent

    def step_for(self, index: int) -> Step:
        return self._step

    def request_for(self, index: int) -> bytes:
        return self._request


class Broadcast(Answers):
    """One request to every node: collects the answers, and is itself the pending reply on every connection. Builds a
    Step for a node only in unusual cases."""

    __slots__ = ("_requests", "_step_for", "sent", "stuck")

    raw = True

    def __init__(self, requests: Sequence[bytes], step_for: Callable[[int], Step], sent: float) -> None:
        self.answers = [None] * len(requests)
        self.wanted = True
        self.forgotten = False
        self._requests = requests
        self._step_for = step_for
        self.sent = sent
        self.stuck = False
        """A connection did not accept its whole request at once."""

    @property
    def collected(self) -> Answers:
        return self

    def step_for(self, index: int) -> Step:
        return self._step_for(index)

    def request_for(self, index: int) -> bytes:
        return self._requests[index]


class NodeConnection:
    def __init__(self, link: Link, pool: "Pool") -> None:
        link.stop_blocking()
        self.link = link
        self.fd = link.fileno()
        self.bare = link.bare() if isinstance(link, SocketLink) else None
        """The socket and parser functions for broadcasts; None if there are none (TLS)."""
        self.pool = pool
        self.index = pool.index
        self.pending: deque[PendingReply | Broadcast] = deque()
        self.out = b""
        self.alive = True
        self.bells: set[Owner] = set()
        self._epoch = process.current.epoch

    def ask(self, owed: PendingReply) -> None:
        self.pending.append(owed)
        self.flush(owed.request_for(self.index))

    def flush(self, more: bytes = b"") -> None:
        try:
            self.out = self.link.push_out(self.out + more if self.out else more)
        except LinkDown as down:
            self.fail(down.cause)

    def pump(self, *, resting: bool = False) -> None:
        """Handles all input, without blocking. `resting`: it was idle, so its failure says little about the node."""
        if self.out:
            self.flush()
        if not self.alive:
            return
        try:
            items = self.link.pump()
        except (LinkDown, hiredis.ProtocolError) as down:
            self.fail(str(down), resting=resting)
            return
        for item in items:
            self.take_in(item)
        if items:
            self.pool.breaker.worked()

    def take_in(self, item: Any) -> None:
        """Handles one item: a bell, or the reply that is owed first."""
        if item.__class__ is _Push:
            rung = bell_for(item)
            if rung is not None:
                self.bells.add(rung[0])
        elif not self.pending:
            self.fail(TOO_MANY_REPLIES)
        else:
            self._told(self.pending.popleft(), item)

    def _told(self, owed: PendingReply | Broadcast, reply: Any) -> None:
        step, collected = owed.step_for(self.index), owed.collected
        if isinstance(reply, hiredis.ReplyError):
            # Do not repeat a vote that no caller waits for: its undo may have run already.
            request = with_missing_script(owed.request_for(self.index), reply)
            if request is not None and (collected.wanted or step.undo):
                collected.forgotten = True
                self.ask(PendingReply(collected, step, request, self.pool.clock()))
            else:
                self._leave_undone(owed)
                self._write(collected, ServerSaid(str(reply)))
            return
        self.pool.knows.add(step.script)
        if collected.wanted:
            self._write(collected, reply if collected.raw else step.made_of(reply, owed.sent))

    def _write(self, collected: Answers, answer: Any) -> None:
        if collected.wanted and collected.answers[self.index] is None:
            collected.answers[self.index] = answer

    def silent_for(self, now: float) -> float:
        return now - self.pending[0].sent if self.pending else 0.0

    def fail(self, cause: str, *, resting: bool = False) -> None:
        """Closes the connection. Callers get LinkDown; undo steps without a reply go to the keeper."""
        if not self.alive:
            return
        self.alive = False
        self.link.close()
        self.pool.knows.clear()
        pending, self.pending = self.pending, deque()
        for owed in pending:
            self._leave_undone(owed)
            self._write(owed.collected, LinkDown(cause, sent=True))
        if not resting:
            self.pool.breaker.failed(self.pool.clock(), cause)

    def _leave_undone(self, owed: PendingReply | Broadcast) -> None:
        step = owed.step_for(self.index)
        if step.undo:
            self.pool.leave_to_the_keeper(step.otherwise or step)

    def __del__(self) -> None:
        """An interrupt may have dropped it, and closing can lose its last requests: owed undos go to the keeper."""
        try:
            if self.alive and self._epoch == process.current.epoch:
                for owed in self.pending:
                    self._leave_undone(owed)
        except AttributeError:
            pass  # __init__ did not finish


class CallerWakePipe(WakePipe):
    """A calling thread polls it together with its connections. Connection attempts write to it when they end, also if
    the caller closes it at that moment."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()  # a signal handler may close the client while we wake this caller
        self._open = True
        self.open()

    def wake(self) -> None:
        with self._lock:
            if self._open:
                super().wake()

    def close(self) -> None:
        with self._lock:
            self._open = False
            super().close()


class Pool:
    """The connections to one node that are in no node group, and the attempts to open more."""

    def __init__(self, place: Place, index: int, connect_timeout: float) -> None:
        self.place = place
        self.index = index
        """The node's index in the quorum."""
        self.clock = place.clock
        self.breaker = Breaker(place)
        self.idle: list[NodeConnection] = []
        """Connections that no group has taken, because their caller stopped waiting, say."""
        self.knows: set[object] = set()
        """Scripts that the node has answered to, as `Step.script` identifies them. Until then undo requests carry
        the script body: there may be no caller left to handle NOSCRIPT."""
        self.closed = False
        self._connect_timeout = connect_timeout
        self._lock = threading.RLock()  # re-entrant: a signal handler may acquire a lock while we hold it
        self._connecting: set[object] = set()
        """A token for each thread that connects."""
        self._failed_rounds = 0
        self._waiting: set[CallerWakePipe] = set()
        """The wake pipes of callers that need a connection and have none yet."""

    def take(self, wake_pipe: CallerWakePipe | None = None) -> NodeConnection | None:
        """Returns a connection that is in no node group yet; None if one must be opened first. `wake_pipe` is that of
        the caller, which may have waited for it."""
        while True:
            with self._lock:
                if not self.idle:
                    return None
                connection = self.idle.pop()
                if wake_pipe is not None:
                    self._waiting.discard(wake_pipe)
            connection.pump(resting=True)
            if connection.alive:
                return connection

    def connect_soon(self, wake_pipe: CallerWakePipe, now: float) -> bool:
        """Has a thread open a connection, and wakes `wake_pipe` whenever such a thread has ended one attempt, until
        `stop_waiting`. False if the breaker is open or no thread could be started, and none is connecting."""
        with self._lock:
            self._waiting.add(wake_pipe)
            if self.idle:
                wake_pipe.wake()  # it was opened just now: the caller shall ask again
                return True
            if self._wants_another(len(self._connecting)) and not self.breaker.is_open(now):
                token = object()
                self._connecting.add(token)
                try:
                    process.start_thread(partial(self._connect, token), "holdtight-connect")
                except BaseException as error:
                    self._connecting.discard(token)  # an interrupt may have come before the thread started, or after
                    if not isinstance(error, RuntimeError):
                        raise
                    if not self._connecting:
                        self.breaker.failed(now, f"{NO_THREAD}: {error}")
            if not self._connecting:
                self._waiting.discard(wake_pipe)
            return bool(self._connecting)

    def stop_waiting(self, wake_pipe: CallerWakePipe) -> None:
        with self._lock:
            self._waiting.discard(wake_pipe)
        self._tidy()

    def _wants_another(self, connecting: int) -> bool:
        """One for each caller that waits, so that none of them waits for the connections of the others; one at a time
        while it is not known whether the node can be reached."""
        most = 1 if self.breaker.doubts else MOST_CONNECTING
        return connecting < min(most, len(self._waiting) - len(self.idle))

    def _connect(self, token: object) -> None:
        try:
            while self._open_one(token):
                pass
        finally:  # also after what a credential provider raised and nothing caught
            with self._lock:
                self._connecting.discard(token)
            self._wake_all()
            self._tidy()

    def _open_one(self, token: object) -> bool:
        """Returns whether this thread is to open another one."""
        refused, round_ = False, self._failed_rounds
        try:
            connection = NodeConnection(self.place.open(self._connect_timeout), self)
        except (LinkDown, ServerSaid, OSError) as error:
            cause, refused = quotable(error), isinstance(error, ServerSaid)
        except Exception as error:  # credential providers are user code
            cause = f"{type(error).__name__}: {error}"
        else:
            self.breaker.worked()
            with self._lock:
                self.idle.append(connection)
                again = not self.closed and self._wants_another(len(self._connecting - {token}))
                if not again:
                    self._connecting.discard(token)
            self._wake_all()
            with suppress(RuntimeError, OSError):  # no thread or descriptor is left for the keeper
                self.place.runtime.keeper.watch(self.place)
            return again
        with self._lock:
            counts = round_ == self._failed_rounds  # attempts at the same time are one failure of the node
            self._failed_rounds += counts
        if counts:
            self.breaker.failed(self.clock(), cause, refused=refused)
        return False

    def _wake_all(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for wake_pipe in waiting:
            wake_pipe.wake()

    def _tidy(self) -> None:
        """Of a closed client, a release may still need the connection that was opened for it."""
        if self.closed and not self._waiting:
            self._empty()

    def leave_to_the_keeper(self, step: Step) -> None:
        self.place.runtime.keeper.ask(DeferredUndo(self.place, step))

    def close(self) -> None:
        self.closed = True
        self._empty()

    def _empty(self) -> None:
        while self.idle:
            try:
                connection = self.idle.pop()
            except IndexError:
                return
            connection.alive = False
            connection.link.close()

    def after_fork(self) -> None:
        for connection in self.idle:
            connection.alive = False
            connection.link.abandon()
        self.idle = []
        self._lock = threading.RLock()
        self._connecting = set()
        self._waiting = set()


def may_ask(connection: NodeConnection, step: Step, now: float) -> str:
    """Why the node must not be asked now; empty if it may be. Undo requests go to silent nodes too, up to a limit."""
    if len(connection.pending) >= MOST_OWED:
        return f"{len(connection.pending)} requests are unanswered"
    silent = connection.silent_for(now)
    if silent > SILENT_SECONDS and not step.undo:
        return f"it has been silent for {silent:.3g} s"
    return ""
