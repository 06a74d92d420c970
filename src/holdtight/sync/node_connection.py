"""Connections to the nodes of a quorum for blocking code: never blocking themselves, polled by who uses them.

A *wire* is a link that may owe replies: requests go out one after another, replies are told to whoever asked, also
those that nobody waits for any more. So a slow node keeps its wire, in order, and a hung one costs nothing but what
it was sent before it was noticed.

# Invariants:
# - a wire is used by one thread at a time, as part of a crew (crews.py);
# - `pending` has a ticket for every reply that is owed, in order;
# - a wire is never made in the caller's thread: a node that does not answer must not hold up the others.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from holdtight.base import process
from holdtight.base.breaker import Breaker
from holdtight.base.plan import LinkDown, ServerSaid, Step
from holdtight.base.values import Owner
from holdtight.errors import quotable
from holdtight.keeper.charges import DeferredUndo
from holdtight.stores.boundary import Link, Place
from holdtight.stores.redis.link import Link as SocketLink
from holdtight.stores.redis.link import bell_for
from holdtight.stores.redis.quorum_place import MOST_OWED, SILENT_SECONDS
from holdtight.stores.redis.script import is_unknown, with_script_body

__all__ = ["NOBODYS", "Answers", "Broadcast", "Ear", "NodeConnection", "PendingReply", "Pool", "may_ask"]

_Push = hiredis.PushNotification


class Answers:
    """Where the answers of one Fan go; `raw`: as they come, to be read by who asked."""

    __slots__ = ("answers", "forgotten", "wanted")

    raw = False

    def __init__(self, count: int) -> None:
        self.answers: list[Any] = [None] * count
        self.wanted = True
        """Somebody waits for them."""
        self.forgotten = False
        """A node did not know the script any more."""


NOBODYS = Answers(0)
NOBODYS.wanted = False


class PendingReply:
    """What one node owes one asker."""

    __slots__ = ("_request", "_step", "sent", "sheet")

    def __init__(self, sheet: Answers, step: Step, request: bytes, sent: float) -> None:
        self.sheet = sheet
        self._step = step
        self._request = request
        self.sent = sent

    def step_for(self, index: int) -> Step:
        return self._step

    def request_for(self, index: int) -> bytes:
        return self._request


class Broadcast(Answers):
    """One request to every node: a sheet that is its own ticket, the same on all wires. What each request is known by
    is asked for only if something is not usual."""

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
        """A wire did not take its request whole at once."""

    @property
    def sheet(self) -> Answers:
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
        """What crews do in one go needs its socket and its parser; None if it has none to give (TLS)."""
        self.pool = pool
        self.index = pool.index
        self.pending: deque[PendingReply | Broadcast] = deque()
        self.out = b""
        self.alive = True
        self.bells: set[Owner] = set()
        self._epoch = process.current.epoch

    def ask(self, ticket: PendingReply) -> None:
        self.pending.append(ticket)
        self.flush(ticket.request_for(self.index))

    def flush(self, more: bytes = b"") -> None:
        try:
            self.out = self.link.push_out(self.out + more if self.out else more)
        except LinkDown as down:
            self.fail(down.cause)

    def pump(self, *, resting: bool = False) -> None:
        """Tells all that has come. Does not block. The end of a wire that was `resting` says little about the node."""
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
        """Something has come: a bell, or the reply that is owed first."""
        if item.__class__ is _Push:
            rung = bell_for(item)
            if rung is not None:
                self.bells.add(rung[0])
        elif not self.pending:
            self.fail("it answered more than was asked")
        else:
            self._told(self.pending.popleft(), item)

    def _told(self, ticket: PendingReply | Broadcast, reply: Any) -> None:
        step, sheet = ticket.step_for(self.index), ticket.sheet
        if isinstance(reply, hiredis.ReplyError):
            # A vote that nobody waits for is not sent again: what undoes it may have been carried out already.
            if is_unknown(reply) and (sheet.wanted or step.undo):
                sheet.forgotten = True
                request = with_script_body(ticket.request_for(self.index))
                self.ask(PendingReply(sheet, step, request, self.pool.clock()))
            else:
                self._leave_undone(ticket)
                self._write(sheet, ServerSaid(str(reply)))
            return
        self.pool.knows.add(step.script)
        if sheet.wanted:
            self._write(sheet, reply if sheet.raw else step.made_of(reply, ticket.sent))

    def _write(self, sheet: Answers, answer: Any) -> None:
        if sheet.wanted and sheet.answers[self.index] is None:
            sheet.answers[self.index] = answer

    def silent_for(self, now: float) -> float:
        return now - self.pending[0].sent if self.pending else 0.0

    def fail(self, cause: str, *, resting: bool = False) -> None:
        """It is of no use any more. Whoever waits is told; what must not be left undone goes to the keeper."""
        if not self.alive:
            return
        self.alive = False
        self.link.close()
        self.pool.knows.clear()
        pending, self.pending = self.pending, deque()
        for ticket in pending:
            self._leave_undone(ticket)
            self._write(ticket.sheet, LinkDown(cause, sent=True))
        if not resting:
            self.pool.breaker.failed(self.pool.clock(), cause)

    def _leave_undone(self, ticket: PendingReply | Broadcast) -> None:
        step = ticket.step_for(self.index)
        if step.undo:
            self.pool.leave_to_the_keeper(step.otherwise or step)

    def __del__(self) -> None:
        """An interrupt between two statements may have dropped it: its end can lose what it was sent last."""
        try:
            if self.alive and self._epoch == process.current.epoch:
                for ticket in self.pending:
                    self._leave_undone(ticket)
        except AttributeError:
            pass  # it was never finished


class Ear:
    """What a thread polls besides its wires: it is woken when a node has been connected to, or could not be."""

    def __init__(self) -> None:
        self.fd, self._mouth = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._mouth, False)
        self._lock = threading.Lock()
        self._open = True

    def wake(self) -> None:
        with self._lock:
            if self._open:
                try:
                    os.write(self._mouth, b"!")
                except BlockingIOError:
                    pass

    def clear(self) -> None:
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        with self._lock:
            self._open = False
            os.close(self.fd)
            os.close(self._mouth)


class Pool:
    """The wires to one node."""

    def __init__(self, place: Place, index: int, connect_timeout: float) -> None:
        self.place = place
        self.index = index
        """The node's, among all."""
        self.clock = place.clock
        self.breaker = Breaker()
        self.idle: list[NodeConnection] = []
        """Made for somebody who did not wait so long."""
        self.knows: set[object] = set()
        """The scripts that the node has answered to, as `Step.script` names them. What undoes goes out whole until
        then: nobody may be there any more to send it again."""
        self.closed = False
        self._connect_timeout = connect_timeout
        self._lock = threading.RLock()  # re-entrant: a signal handler may take a lock in the middle of it
        self._connecting = False
        self._hopeful: list[Ear] = []

    def take(self) -> NodeConnection | None:
        """One that belongs to no crew yet; None if one has to be made first."""
        while True:
            try:
                wire = self.idle.pop()
            except IndexError:
                return None
            wire.pump(resting=True)
            if wire.alive:
                return wire

    def hope(self, ear: Ear, now: float) -> bool:
        """Has a wire made; the ear is woken when it is there, or cannot be had. False: not worth trying now."""
        with self._lock:
            if not self._connecting:
                if self.breaker.is_open(now):
                    return False
                self._connecting = True
                try:
                    process.start_thread(self._connect, "holdtight-connect")
                except BaseException as error:
                    self._connecting = False  # an interrupt may have come before there was a thread
                    if not isinstance(error, RuntimeError):
                        raise
                    self.breaker.failed(now, f"no thread to connect with: {error}")
                    return False
            self._hopeful.append(ear)
            return True

    def _connect(self) -> None:
        cause, refused = "", False
        try:
            wire = NodeConnection(self.place.open(self._connect_timeout), self)
        except (LinkDown, ServerSaid, OSError) as error:
            cause, refused = quotable(error), isinstance(error, ServerSaid)
        except Exception as error:  # credentials come from code that is not ours
            cause = f"{type(error).__name__}: {error}"
        else:
            self.breaker.worked()
            self.idle.append(wire)
            self.place.runtime.keeper.watch(self.place)
        if cause:
            self.breaker.failed(self.clock(), cause, refused=refused)
        with self._lock:
            self._connecting = False
            hopeful, self._hopeful = self._hopeful, []
        for ear in hopeful:
            ear.wake()
        if self.closed:
            self._empty()

    @property
    def connecting(self) -> bool:
        return self._connecting

    def leave_to_the_keeper(self, step: Step) -> None:
        self.place.runtime.keeper.ask(DeferredUndo(self.place, step))

    def close(self) -> None:
        self.closed = True
        self._empty()

    def _empty(self) -> None:
        while self.idle:
            try:
                wire = self.idle.pop()
            except IndexError:
                return
            wire.alive = False
            wire.link.close()

    def after_fork(self) -> None:
        for wire in self.idle:
            wire.alive = False
            wire.link.abandon()
        self.idle = []
        self._lock = threading.RLock()
        self._connecting = False
        self._hopeful = []


def may_ask(wire: NodeConnection, step: Step, now: float) -> str:
    """Why a node is not to be asked now; empty if it is. What undoes is sent all the same, up to a limit."""
    if len(wire.pending) >= MOST_OWED:
        return f"{len(wire.pending)} requests are unanswered"
    silent = wire.silent_for(now)
    if silent > SILENT_SECONDS and not step.undo:
        return f"it has been silent for {silent:.3g} s"
    return ""
