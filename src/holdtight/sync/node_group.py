"""Crews: a wire to each node of a quorum, with what polls them, as one thread uses them.

`send_all` and `gather` are one round trip to all nodes with as little in between as there can be. Whatever is not usual
there (a bell, an error, a node that fails) is left to the wire it came by.
"""

import select
from collections.abc import Sequence
from typing import Any

import hiredis

from holdtight.base import process
from holdtight.base.clock import Clock
from holdtight.base.plan import LinkDown
from holdtight.stores.redis.handshake import InboxArgs
from holdtight.stores.redis.link import NOTHING
from holdtight.stores.redis.quorum_place import MOST_OWED, SILENT_SECONDS, QuorumPlace
from holdtight.stores.redis.spin import SpinWait
from holdtight.stores.times import LONGEST_PATIENCE
from holdtight.sync.node_connection import Broadcast, Ear, NodeConnection, PendingReply, Pool

__all__ = ["GroupPool", "NodeGroup"]

RESTED = 0.05
LITTLE = 448
"""Is read at once where a few short replies are all that is owed. Of more, poll will tell; and memory for so little
comes from Python's own pools."""
_RESTS = 16, 1024
"""Of a lookout, in requests to all nodes."""
_CHECKS = 4
"""So many times more is a crew taken for ready that was found to be, if nothing but the usual has come since."""


class NodeGroup:
    """A wire to each node, None where there is none, for one thread at a time."""

    def __init__(self, count: int, *, spin: bool = True) -> None:
        self.wires: list[NodeConnection | None] = [None] * count
        self.ways: tuple[NodeConnection | None, ...] = ()
        """The same wires, always: made anew whenever one of them changes."""
        self.words = InboxArgs(())
        """The inboxes of the wires, as they go into a request."""
        self.used = 0.0
        self._poller = select.poll()
        self._by_fd: dict[int, NodeConnection] = {}
        self._later = select.poll()
        """So many of them that every majority has one, and so have as many as can say no to it."""
        self._first_later = (count - 1) // 2
        self.senders: list[tuple[NodeConnection, Any, Any, Any]] = []
        """What `send_all` needs of each wire: to send, and to note what is owed. Of all, or else empty."""
        self._taps: dict[int, tuple[Any, ...]] = {}
        """And what `gather` needs."""
        self._checks = 0
        self._lookout = SpinWait(_RESTS) if spin else None

    def put(self, index: int, wire: NodeConnection) -> None:
        self.tidy()  # a descriptor that was closed may be the new one's number
        wire.bells.clear()
        self.wires[index] = wire
        self._rewire()
        self._by_fd[wire.fd] = wire
        self._poller.register(wire.fd, select.POLLIN)
        if index >= self._first_later:
            self._later.register(wire.fd, select.POLLIN)

    def _rewire(self) -> None:
        self._checks = 0
        self.ways = tuple(self.wires)
        self.senders, self._taps = [], {}
        ready = [wire for wire in self.wires if wire is not None and wire.bare is not None]
        if len(ready) == len(self.wires):
            self.words = InboxArgs([wire.link.inbox_word for wire in ready])
            for wire in ready:
                bare: Any = wire.bare
                write, read, feed, gets = bare
                self.senders.append((wire, write, wire.link, wire.pending.append))
                self._taps[wire.fd] = (wire.index, wire.pending, read, wire.link, feed, gets, wire)

    def tidy(self) -> None:
        """Lets go of wires that have failed."""
        for index, wire in enumerate(self.wires):
            if wire is not None and not wire.alive:
                self.wires[index] = None
                self._rewire()
                del self._by_fd[wire.fd]
                self._poller.unregister(wire.fd)
                if index >= self._first_later:
                    self._later.unregister(wire.fd)

    def refresh(self, now: float) -> None:
        """Before it is used: what came while it rested is read, and silence noticed."""
        self._checks = 0
        if now - self.used > RESTED:
            self.tidy()
            for fd, _ in self._poller.poll(0):
                self._by_fd[fd].pump(resting=True)
        for wire in self.wires:
            if wire is not None:
                if wire.bells:
                    wire.bells.clear()
                if wire.pending and now - wire.pending[0].sent > LONGEST_PATIENCE:
                    wire.fail("it did not answer in time")

    def wait(self, seconds: float, ear: Ear | None) -> bool:
        """Until something has come, on any wire or to the ear. False if nothing did."""
        self._checks = 0
        stuck = [wire for wire in self.wires if wire is not None and (wire.out or not wire.alive)]
        if stuck:
            self.tidy()
            for wire in stuck:
                if wire.alive:
                    self._poller.modify(wire.fd, select.POLLIN | select.POLLOUT)
        if ear is not None:
            self._poller.register(ear.fd, select.POLLIN)
        try:
            found = self._poller.poll(max(0.0, min(seconds, 3600.0)) * 1000 + 0.5)  # less than 0 would be for ever
        finally:
            if ear is not None:
                self._poller.unregister(ear.fd)
            for wire in stuck:
                if wire.alive:
                    self._poller.modify(wire.fd, select.POLLIN)
        for fd, _ in found:
            wire_or_none = self._by_fd.get(fd)
            if wire_or_none is not None:
                wire_or_none.pump()
            elif ear is not None:
                ear.clear()
        return bool(found)

    # All nodes in one go.

    def is_ready(self, now: float) -> bool:
        """Every node can be asked by its wire, as far as is known."""
        if now - self.used > RESTED:
            self.refresh(now)
        elif self._checks:
            self._checks -= 1
            return True
        if not self.senders:
            return False
        for wire, _, _, _ in self.senders:
            if not wire.alive or wire.out:
                return False
            pending = wire.pending
            if pending and (len(pending) >= MOST_OWED or now - pending[0].sent > SILENT_SECONDS):
                return False
            if wire.bells:
                wire.bells.clear()
        self._checks = _CHECKS
        return True

    def send_all(self, call: Broadcast, requests: Sequence[bytes]) -> None:
        """To a crew that is ready."""
        for (wire, write, link, owe), request in zip(self.senders, requests, strict=True):
            owe(call)
            try:
                sent = write(link.fd, request)
            except OSError:
                wire.flush(request)  # nothing went: again, and properly
                call.stuck = True
            else:
                if sent != len(request):
                    wire.out = request[sent:]
                    call.stuck = True

    def gather(self, call: Broadcast, enough: int, too_many: int, until: float, clock: Clock) -> bool:
        """Until enough have said yes (1, or begins with it, or is a text), too many no (begins with 0), or all have
        answered. When the time has come, those who have not are answered for. True: enough, and all alike."""
        answers, taps, poll = call.answers, self._taps, self._poller.poll
        yes = no = alike = 0
        left = max(0.0, until - call.sent)
        usual = not call.stuck
        nothing_yet = enough > len(answers) // 2
        lookout = self._lookout
        if lookout is not None and not lookout.looking:
            lookout.again()
        while True:
            if not usual:
                ready = self._poll(left)
            elif lookout is not None and lookout.looking:
                ready = lookout.poll(poll, left * 1000 + 0.5)
            elif nothing_yet:  # one of these must answer before anything is certain: why wake up for the others?
                self._later.poll(left * 1000 + 0.5)
                ready = poll(0)
            else:
                ready = poll(left * 1000 + 0.5)
            counted = bool(ready)
            for fd, _ in ready:
                index, pending, read, link, feed, gets, wire = taps[fd]
                try:
                    feed(read(link.fd, LITTLE))
                    item = gets()
                    if item is NOTHING:
                        counted = False
                        wire.pump()  # closed, or a piece: it will see
                        continue
                    while True:
                        kind = item.__class__
                        if (kind is bytes or kind is int or kind is list) and pending:
                            ticket = pending.popleft()
                            if ticket is call or (ticket.__class__ is PendingReply and ticket.sheet is call):
                                answers[index] = item
                                nothing_yet = False
                                if kind is not list:
                                    if kind is bytes or item == 1:
                                        yes += 1
                                        alike += 1
                                elif item[0] == 1:
                                    yes += 1
                                elif item[0] == 0:
                                    no += 1
                        else:
                            counted = False
                            wire.take_in(item)
                        item = gets()
                        if item is NOTHING:
                            break
                except OSError:
                    counted = False
                    wire.pump()  # broken, or nothing there: it will see
                except hiredis.ProtocolError as error:
                    counted = False
                    wire.fail(str(error))
            if not counted:  # a wire may have told something as well
                yes, no = _count(answers)
                usual = False
                alike = self._checks = 0
            if yes >= enough:
                return alike == yes
            if no >= too_many or None not in answers:
                return False
            left = until - clock()
            if left <= 0:
                for index, answer in enumerate(answers):
                    if answer is None:
                        answers[index] = LinkDown("it did not answer in time", sent=True)
                return False

    def _poll(self, seconds: float) -> list[tuple[int, int]]:
        for wire in self.wires:
            if wire is not None and (wire.out or not wire.alive):
                self.wait(seconds, None)  # which sees to it
                return []
        return self._poller.poll(max(0.0, seconds) * 1000 + 0.5)

    def break_off(self) -> None:
        """Something came in between: what has been read may be incomplete. What is owed goes to the keeper."""
        for wire in self.wires:
            if wire is not None and wire.alive:
                wire.flush()
                wire.fail("the caller was interrupted")

    def close(self) -> None:
        for wire in self.wires:
            if wire is not None and wire.alive:
                wire.flush()
                wire.alive = False
                wire.link.close()

    def abandon(self) -> None:
        """In a forked child."""
        for wire in self.wires:
            if wire is not None and wire.alive:
                wire.alive = False
                wire.link.abandon()


class GroupPool:
    """The pools of all nodes, and the crews that nobody uses just now."""

    def __init__(self, place: QuorumPlace, *, connect_timeout: float, spin: bool = True) -> None:
        self.place = place
        self._spin = spin
        self.pools = [Pool(node, index, connect_timeout) for index, node in enumerate(place.nodes)]
        self.idle: list[NodeGroup] = []
        self.closed = False
        self.ears: set[Ear] = set()
        """Of those who wait: `close` wakes them."""
        process.tell_of_fork(self)

    def take(self, ways: Sequence[NodeConnection | None]) -> NodeGroup:
        """A crew for this thread alone: the one that has these wires, if it is free."""
        for index, way in enumerate(ways):
            if way is not None:
                for crew in reversed(self.idle):
                    if crew.wires[index] is way:
                        try:
                            self.idle.remove(crew)
                        except ValueError:
                            break  # another thread was quicker
                        return crew
                break
        try:
            return self.idle.pop()
        except IndexError:
            return NodeGroup(len(self.pools), spin=self._spin)

    def take_ready(self, ways: Sequence[NodeConnection | None], now: float) -> NodeGroup | None:
        """One that can ask every node at once, if there is one at hand."""
        try:
            crew = self.idle.pop()
        except IndexError:
            return None
        if ways and crew.ways is not ways:
            self.idle.append(crew)
            crew = self.take(ways)
        if crew.is_ready(now):
            return crew
        self.idle.append(crew)
        return None

    def know(self, script: object) -> bool:
        """All nodes know that script."""
        for pool in self.pools:
            if script not in pool.knows:
                break
        else:
            return True
        return False

    def give(self, crew: NodeGroup, now: float) -> None:
        crew.used = now
        self.idle.append(crew)
        if self.closed:
            self._empty()

    def close(self) -> None:
        self.closed = True
        for ear in list(self.ears):
            ear.wake()
        for pool in self.pools:
            pool.close()
        self._empty()

    def let_go(self) -> None:
        """From a finalizer: nobody has the client any more."""
        if self.place.runtime.keeper.running:
            self.place.runtime.keeper.run_soon(self._let_go)

    def _let_go(self) -> None:
        """In the keeper's thread: what has been answered is read first, and need not be told once more when a wire
        ends (see NodeConnection)."""
        self.closed = True
        for pool in self.pools:
            pool.close()
        for crew in self.idle:
            for wire in crew.wires:
                if wire is not None and wire.alive:
                    wire.pump(resting=True)
        self.idle.clear()

    def _empty(self) -> None:
        while self.idle:
            try:
                crew = self.idle.pop()
            except IndexError:
                return
            crew.close()

    def after_fork(self) -> None:
        for crew in self.idle:
            crew.abandon()
        self.idle = []
        self.ears = set()
        for pool in self.pools:
            pool.after_fork()


def _count(answers: list[Any]) -> tuple[int, int]:
    """How many say yes, and no."""
    words = [each[0] if each.__class__ is list else 1 if each.__class__ is bytes else each for each in answers]
    return words.count(1), words.count(0)
