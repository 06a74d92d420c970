"""Node groups: one connection to each node of a quorum, and their pollers, used by one thread at a time.

`send_all` and `gather` make one round trip to all nodes with minimal overhead. Everything unusual (a bell, an error, a
failing node) is left to the node connection.
"""

import select
from collections.abc import Sequence
from typing import Any

import hiredis

from holdtight.base import process
from holdtight.base.clock import Clock
from holdtight.base.plan import NO_ANSWER, LinkDown
from holdtight.stores.redis.handshake import InboxArgs
from holdtight.stores.redis.link import NOTHING
from holdtight.stores.redis.quorum_place import MOST_OWED, SILENT_SECONDS, QuorumPlace
from holdtight.stores.redis.second_reply import PIECE
from holdtight.stores.redis.spin import SpinWait
from holdtight.stores.times import LONGEST_PATIENCE
from holdtight.sync.node_connection import Broadcast, CallerWakePipe, NodeConnection, PendingReply, Pool

__all__ = ["GroupPool", "NodeGroup"]

RESTED = 0.05
_RESTS = 16, 1024
"""Shortest and longest rest of the spin wait, in broadcasts."""
_CHECKS = 4
"""After a full check, a group counts as ready for this many more broadcasts, as long as only usual replies arrive."""


class NodeGroup:
    """A connection to each node, or None, for one thread at a time."""

    def __init__(self, count: int, *, spin: bool = True) -> None:
        self.by_node: list[NodeConnection | None] = [None] * count
        self.connections: tuple[NodeConnection | None, ...] = ()
        """The connections as a tuple. Replaced whenever one of them changes, so identity means the same connections."""
        self.inbox_args = InboxArgs(())
        """The inboxes of the connections, encoded for requests."""
        self.used = 0.0
        self._poller = select.poll()
        self._by_fd: dict[int, NodeConnection] = {}
        self._later = select.poll()
        """Polls just enough connections that nothing can be decided before one of them answers."""
        self._first_later = (count - 1) // 2
        self.senders: list[tuple[NodeConnection, Any, Any, Any]] = []
        """What `send_all` needs of each connection: write function, link, pending replies. All nodes or none."""
        self._taps: dict[int, tuple[Any, ...]] = {}
        """What `gather` needs of each connection, by file descriptor."""
        self._checks = 0
        self._spin_wait = SpinWait(_RESTS) if spin else None

    def put(self, index: int, connection: NodeConnection) -> None:
        self.tidy()  # a closed file descriptor may have the new connection's number
        connection.bells.clear()
        self.by_node[index] = connection
        self._connections_changed()
        self._by_fd[connection.fd] = connection
        self._poller.register(connection.fd, select.POLLIN)
        if index >= self._first_later:
            self._later.register(connection.fd, select.POLLIN)

    def _connections_changed(self) -> None:
        self._checks = 0
        self.connections = tuple(self.by_node)
        self.senders, self._taps = [], {}
        ready = [each for each in self.by_node if each is not None and each.bare is not None]
        if len(ready) == len(self.by_node):
            self.inbox_args = InboxArgs([each.link.inbox_word for each in ready])
            for connection in ready:
                bare: Any = connection.bare
                write, read, feed, gets = bare
                link, pending = connection.link, connection.pending
                self.senders.append((connection, write, link, pending.append))
                self._taps[connection.fd] = (connection.index, pending, read, link, feed, gets, connection)

    def tidy(self) -> None:
        """Removes failed connections."""
        for index, connection in enumerate(self.by_node):
            if connection is not None and not connection.alive:
                self.by_node[index] = None
                self._connections_changed()
                del self._by_fd[connection.fd]
                self._poller.unregister(connection.fd)
                if index >= self._first_later:
                    self._later.unregister(connection.fd)

    def refresh(self, now: float) -> None:
        """Call before use: reads what arrived during idle time, and fails connections that were silent too long."""
        self._checks = 0
        if now - self.used > RESTED:
            self.tidy()
            for fd, _ in self._poller.poll(0):
                self._by_fd[fd].pump(resting=True)
        for connection in self.by_node:
            if connection is not None:
                if connection.bells:
                    connection.bells.clear()
                if connection.pending and now - connection.pending[0].sent > LONGEST_PATIENCE:
                    connection.fail(NO_ANSWER)

    def wait(self, seconds: float, wake_pipe: CallerWakePipe | None) -> bool:
        """Waits until any connection or the wake pipe is ready. False on timeout."""
        self._checks = 0
        stuck = [each for each in self.by_node if each is not None and (each.out or not each.alive)]
        if stuck:
            self.tidy()
            for connection in stuck:
                if connection.alive:
                    self._poller.modify(connection.fd, select.POLLIN | select.POLLOUT)
        if wake_pipe is not None:
            self._poller.register(wake_pipe.fd, select.POLLIN)
        try:
            found = self._poller.poll(max(0.0, min(seconds, 3600.0)) * 1000 + 0.5)  # negative: for ever
        finally:
            if wake_pipe is not None:
                self._poller.unregister(wake_pipe.fd)
            for connection in stuck:
                if connection.alive:
                    self._poller.modify(connection.fd, select.POLLIN)
        for fd, _ in found:
            readable = self._by_fd.get(fd)
            if readable is not None:
                readable.pump()
            elif wake_pipe is not None:
                wake_pipe.drain()
        return bool(found)

    # Broadcasts.

    def is_ready(self, now: float) -> bool:
        """Whether every node can be asked, as far as is known."""
        if now - self.used > RESTED:
            self.refresh(now)
        elif self._checks:
            self._checks -= 1
            return True
        if not self.senders:
            return False
        for connection, _, _, _ in self.senders:
            if not connection.alive or connection.out:
                return False
            pending = connection.pending
            if pending and (len(pending) >= MOST_OWED or now - pending[0].sent > SILENT_SECONDS):
                return False
            if connection.bells:
                connection.bells.clear()
        self._checks = _CHECKS
        return True

    def send_all(self, broadcast: Broadcast, requests: Sequence[bytes]) -> None:
        """Sends to all nodes. The group must be ready."""
        for (connection, write, link, owe), request in zip(self.senders, requests, strict=True):
            owe(broadcast)
            try:
                sent = write(link.fd, request)
            except OSError:
                connection.flush(request)  # nothing was sent: the connection retries, with error handling
                broadcast.stuck = True
            else:
                if sent != len(request):
                    connection.out = request[sent:]
                    broadcast.stuck = True

    def gather(self, broadcast: Broadcast, enough: int, too_many: int, until: float, clock: Clock) -> bool:
        """Waits until `enough` nodes said yes (1, a list that begins with 1, or bytes), `too_many` said no (a list that
        begins with 0), or all have answered. At `until`, missing answers become LinkDown. True if enough said yes, none
        of them with a list, and nothing unusual arrived."""
        answers, taps, poll = broadcast.answers, self._taps, self._poller.poll
        yes = no = alike = 0
        left = max(0.0, until - broadcast.sent)
        usual = not broadcast.stuck
        nothing_yet = enough > len(answers) // 2
        spin_wait = self._spin_wait
        if spin_wait is not None and not spin_wait.looking:
            spin_wait.again()
        while True:
            if not usual:
                ready = self._poll(left)
            elif spin_wait is not None and spin_wait.looking:
                ready = spin_wait.poll(poll, left * 1000 + 0.5)
            elif nothing_yet:  # one of these must answer before a decision: do not wake up for the others
                self._later.poll(left * 1000 + 0.5)
                ready = poll(0)
            else:
                ready = poll(left * 1000 + 0.5)
            counted = bool(ready)
            for fd, _ in ready:
                index, pending, read, link, feed, gets, connection = taps[fd]
                try:
                    feed(read(link.fd, PIECE))  # poll() reports the rest
                    item = gets()
                    if item is NOTHING:
                        counted = False
                        connection.pump()  # closed, or an incomplete reply: the connection finds out
                        continue
                    while True:
                        kind = item.__class__
                        if (kind is bytes or kind is int or kind is list) and pending:
                            owed = pending.popleft()
                            if owed is broadcast or (owed.__class__ is PendingReply and owed.collected is broadcast):
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
                            connection.take_in(item)
                        item = gets()
                        if item is NOTHING:
                            break
                except OSError:
                    counted = False
                    connection.pump()  # broken, or nothing to read: the connection finds out
                except hiredis.ProtocolError as error:
                    counted = False
                    connection.fail(str(error))
            if not counted:  # a connection may have stored an answer as well
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
                        answers[index] = LinkDown(NO_ANSWER, sent=True, silent=True)
                return False

    def _poll(self, seconds: float) -> list[tuple[int, int]]:
        for connection in self.by_node:
            if connection is not None and (connection.out or not connection.alive):
                self.wait(seconds, None)  # it flushes or removes that connection
                return []
        return self._poller.poll(max(0.0, seconds) * 1000 + 0.5)

    def break_off(self) -> None:
        """After an interrupt the data read may be incomplete: closes all connections; owed undos go to the keeper."""
        for connection in self.by_node:
            if connection is not None and connection.alive:
                connection.flush()
                connection.fail("the caller was interrupted")

    def close(self) -> None:
        for connection in self.by_node:
            if connection is not None and connection.alive:
                connection.flush()
                connection.alive = False
                connection.link.close()

    def abandon(self) -> None:
        """In a forked child."""
        for connection in self.by_node:
            if connection is not None and connection.alive:
                connection.alive = False
                connection.link.abandon()


class GroupPool:
    """The pools of all nodes, and the idle node groups."""

    def __init__(self, place: QuorumPlace, *, connect_timeout: float, spin: bool = True) -> None:
        self.place = place
        self._spin = spin
        self.pools = [Pool(node, index, connect_timeout) for index, node in enumerate(place.nodes)]
        self.idle: list[NodeGroup] = []
        self.closed = False
        self.wake_pipes: set[CallerWakePipe] = set()
        """The wake pipes of waiters: `close` writes to them."""
        process.tell_of_fork(self)

    def take(self, connections: Sequence[NodeConnection | None]) -> NodeGroup:
        """Returns a group for this thread alone: the one with these connections if it is idle."""
        for index, connection in enumerate(connections):
            if connection is not None:
                for group in reversed(self.idle):
                    if group.by_node[index] is connection:
                        try:
                            self.idle.remove(group)
                        except ValueError:
                            break  # another thread took it first
                        return group
                break
        try:
            return self.idle.pop()
        except IndexError:
            return NodeGroup(len(self.pools), spin=self._spin)

    def take_ready(self, connections: Sequence[NodeConnection | None], now: float) -> NodeGroup | None:
        """Returns an idle group that can ask every node now, or None."""
        try:
            group = self.idle.pop()
        except IndexError:
            return None
        if connections and group.connections is not connections:
            self.idle.append(group)
            group = self.take(connections)
        if group.is_ready(now):
            return group
        self.idle.append(group)
        return None

    def know(self, script: object) -> bool:
        """Whether all nodes know that script."""
        for pool in self.pools:
            if script not in pool.knows:
                break
        else:
            return True
        return False

    def give(self, group: NodeGroup, now: float) -> None:
        group.used = now
        self.idle.append(group)
        if self.closed:
            self._empty()

    def close(self) -> None:
        self.closed = True
        for wake_pipe in list(self.wake_pipes):
            wake_pipe.wake()
        for pool in self.pools:
            pool.close()
        self._empty()

    def let_go(self) -> None:
        """Called by a finalizer after the client was dropped."""
        if self.place.runtime.keeper.running:
            self.place.runtime.keeper.run_soon(self._let_go)

    def _let_go(self) -> None:
        """Runs in the keeper's thread. Reads replies first, so that answered undos are not sent again when a connection
        is dropped (see NodeConnection.__del__)."""
        self.closed = True
        for pool in self.pools:
            pool.close()
        for group in self.idle:
            for connection in group.by_node:
                if connection is not None and connection.alive:
                    connection.pump(resting=True)
        self.idle.clear()

    def _empty(self) -> None:
        while self.idle:
            try:
                group = self.idle.pop()
            except IndexError:
                return
            group.close()

    def after_fork(self) -> None:
        for group in self.idle:
            group.abandon()
        self.idle = []
        self.wake_pipes = set()
        for pool in self.pools:
            pool.after_fork()


def _count(answers: list[Any]) -> tuple[int, int]:
    """The numbers of yes and no answers."""
    said = [each[0] if each.__class__ is list else 1 if each.__class__ is bytes else each for each in answers]
    return said.count(1), said.count(0)
