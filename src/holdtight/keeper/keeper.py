"""The keeper: one thread per process that renews leases and keeps waiters' places, for blocking and asyncio clients.

The keeper keeps *Charges*: a tenure (renewed at a third of its ttl, or only watched until its
deadline) or a waiter (touched). Charges of equal interval share a *lane*, an ordered dict in order of due
time, so that adding and dropping one is a dictionary operation without a lock; anything at odd times goes on
the *agenda*, a heap. Due charges go to the keeper connection of their server (see keeper/connection.py), which sends
them in small batches and never blocks, so that one server never delays another.

Invariants:
- the thread runs no user code: callbacks run in the callback thread, connects in threads of their own;
- a charge that was given to a keeper connection is *away* until it is back on its lane, or over. Soon afterwards the
  keeper checks many of them together; a charge that is still away then is watched on the agenda until its deadline;
- a lane that holds charges is armed: the thread wakes for it. Adding to an unarmed lane wakes the thread, so
  a lock taken and released over and over wakes it once an interval, not every time.
"""

import heapq
import itertools
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from holdtight.base import process
from holdtight.base.callbacks import report, tell
from holdtight.base.clock import LONGEST_SLEEP, Clock, boottime
from holdtight.base.runtime import Runtime
from holdtight.base.wake_pipe import WakePipe
from holdtight.keeper.schedule import Backlog, Charge, Lane
from holdtight.keeper.settling import RETRY_SHARE, SHORTEST_RETRY, Settling
from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.keeper.connection import KeeperConnection

__all__ = ["Charge", "Keeper", "keeper", "runtime"]

RECORD_TICK = 2.5
THREAD_NAME = "holdtight-keeper"
SOON = 0.2
SLICE = 24
LOOK_AHEAD = 3.0
"""Longer than a server has to answer, so that most checks find no charge still away."""
_FAILED = "a charge of the keeper's failed: %r"
"""A poll cannot wait much longer than three weeks, and a lease may last longer."""
SHORT_INTERVAL = 1.0
"""Below it there is no time to connect when the first renewal is due."""


class Keeper(Settling):
    def __init__(self, clock: Clock = boottime) -> None:
        self.clock, self.backlog = clock, Backlog()
        self._lanes: dict[float, Lane] = {}
        """Lanes to add to. An empty lane is removed here; code that still refers to it may arm it again."""
        self._armed: dict[Lane, None] = {}
        """Lanes to check."""
        self._requested: deque[Callable[[], None]] = deque()
        self._agenda: list[tuple[float, int, Callable[[float], None] | Charge]] = []
        """Functions to call, and charges whose deadline to check."""
        self._count = itertools.count()
        self._away: dict[Charge, float] = {}
        self._paused: dict[Charge, float] = {}
        self._watched: set[Charge] = set()
        """Charges that have their own entry on the agenda."""
        self._connections: dict[Place, KeeperConnection] = {}
        self._poller: select.poll  # made with the thread: eventlet removes poll, and an import must not fail for that
        self._starting = threading.RLock()  # re-entrant: a signal handler may take a lock meanwhile
        self._seat = threading.Lock()  # of the one thread, which may run although an interrupt left `_thread` None
        self._thread: threading.Thread | None = None
        self._ident = 0
        self._stirred = False
        self._pipe = WakePipe()

    # From any thread.

    def lane(self, interval: float) -> Lane:
        lane = self._lanes.get(interval)
        if lane is None:
            lane = self._lanes.setdefault(interval, Lane(interval))
        return lane

    def add(self, charge: Charge, now: float) -> None:
        interval = charge.interval
        lane = self._lanes.get(interval) or self.lane(interval)
        due = now + interval
        if due < lane.latest - lane.slack:
            self._paused[charge] = due
            self.at(due, lambda when: self._resume(charge, when))
        else:
            lane.latest = due
            lane.charges[charge] = due
            if not lane.armed:
                self.arm(lane, due)
        if charge.deadline < due:
            self.at(charge.deadline, lambda when: self._watch(charge, when))

    def arm(self, lane: Lane, due: float) -> None:
        """Arms a lane that has charges again: the thread wakes for it, and keeps it armed until `due`."""
        lane.check_at = due
        lane.armed = True
        self._armed[lane] = None
        self._lanes.setdefault(lane.interval, lane)
        self.wake()

    def drop(self, charge: Charge) -> None:
        lane = self._lanes.get(charge.interval)
        if lane is not None and lane.charges.pop(charge, None) is not None:
            return
        self._paused.pop(charge, None)
        for lane in list(self._armed):  # an empty lane that was removed, then armed again by a lock
            if lane.interval == charge.interval:
                lane.charges.pop(charge, None)

    def at(self, when: float, what: Callable[[float], None]) -> None:
        self.run_soon(lambda: self._later(when, what))

    def run_soon(self, what: Callable[[], None]) -> None:
        """Calls `what` in the keeper's thread, soon. It must not block."""
        self._requested.append(what)
        self.wake()

    def ask(self, charge: Charge) -> None:
        """Sends this charge's request next, before due renewals."""
        self.run_soon(lambda: self._ask(charge))

    def _ask(self, charge: Charge) -> None:
        now = self.clock()
        self._connection_to(charge.place.of(charge)).enqueue_first(charge, now)
        self._look_after([(charge, now)], now)

    def prepare(self) -> None:
        """Opens the pipe of the thread, so that a process that runs out of descriptors can still start the thread."""
        with self._starting:
            self._pipe.open()

    def wake(self) -> None:
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._start()
        if threading.get_ident() == self._ident:
            self._stirred = True  # this is the keeper's thread: it makes another turn before it sleeps
            return
        self._pipe.wake()

    def watch(self, place: Place) -> None:
        """A client has written its record: the keeper refreshes it while it is needed, then removes it."""
        self.run_soon(lambda: self._connection_to(place).noted())

    def forget(self, place: Place, *, dropped: bool = False) -> None:
        """A client is closed: closes the keeper connection, if there is one, and removes the client's record, unless
        leases are kept there. For a `dropped` client it waits a moment, so that deferred work is done first."""
        for charge in list(place.handed_on.values()):
            charge.alive = False  # the waiters notice by themselves, a little later
        if self.running and dropped:
            self.at(self.clock() + SOON, lambda _: self._retire(place))
        elif self.running or self._connections:
            self.run_soon(lambda: self._retire(place))

    @property
    def running(self) -> bool:
        return self._thread is not None

    def _retire(self, place: Place) -> None:
        connection = self._connections.get(place)
        if connection is not None and connection.busy:  # it has requests that must be completed
            self._later(self.clock() + SHORTEST_RETRY * RETRY_SHARE, lambda _: self._retire(place))
        elif connection is not None and not self.holds(place):  # else `_tick` retires it after the last lease
            del self._connections[place]
            connection.retire()

    def _start(self) -> None:
        self._pipe.open()
        self._thread = process.start_thread(self._run, THREAD_NAME)

    def statistics(self) -> dict[str, int]:
        """Counts for people and tests."""
        return {
            "charges": sum(len(lane.charges) for lane in list(self._armed)),
            "lanes": len(self._lanes),
            "agenda": len(self._agenda),
            "away": len(self._away),
            "connections": len(self._connections),
            "connected": sum(connection.connected for connection in list(self._connections.values())),
        }

    # In the keeper's thread.

    def _run(self) -> None:
        if not self._seat.acquire(blocking=False):
            return  # another keeper thread runs already
        self._poller = select.poll()
        self._poller.register(self._pipe.fd, select.POLLIN)
        self._thread, self._ident = threading.current_thread(), threading.get_ident()
        while True:
            try:
                self._turn()
            except Exception as error:
                report("the keeper stumbled and goes on", error)
                time.sleep(SHORTEST_RETRY)  # the error may recur in every turn

    def _turn(self) -> None:
        self._stirred = False
        self._do_requested()
        wake_at = self._do_due(self.clock())
        if self._stirred:
            return
        pause = max(0.0, min(wake_at - self.clock(), LONGEST_SLEEP))
        if pause:
            pause += min([lane.gathering for lane in list(self._armed)], default=0.0)
        for fd, _ in self._poller.poll(pause * 1000 + 0.5):
            if fd == self._pipe.fd:
                self._pipe.drain()
                self._do_requested()
            else:
                self._serve(fd)

    def _do_due(self, now: float) -> float:
        """Does all that is due by now. Returns when more is due."""
        times = [self._empty(lane, now) for lane in list(self._armed)]
        times.append(self._do_agenda(now))
        times += [connection.advance(now) for connection in list(self._connections.values())]
        wake_at = min(times)
        if wake_at > now and not any(connection.waiting for connection in self._connections.values()):
            self.backlog.done()
        if self._agenda:  # a failed keeper connection may have put its charges there just now
            wake_at = min(wake_at, self._agenda[0][0])
        return wake_at

    def _do_requested(self) -> None:
        while self._requested:
            try:
                self._requested.popleft()()
            except Exception as error:
                report("something that the keeper was asked to do failed", error)

    def _serve(self, fd: int) -> None:
        for connection in self._connections.values():
            if connection.fd == fd:
                connection.ready(self.clock())
                return
        self.unregister(fd)  # closed meanwhile

    def _empty(self, lane: Lane, now: float) -> float:
        """Moves due charges to their keeper connections. Returns when the next is due."""
        charges = lane.charges
        while charges:
            try:
                due = next(iter(charges.values()))
                size = SLICE * self.backlog.stretch(due, now, lane.interval)
                first = list(itertools.islice(charges.items(), size))
            except (RuntimeError, StopIteration):
                continue  # changed by another thread: try again
            late, taken = now - due > lane.interval / 2, list[tuple[Charge, float]]()
            for pair in first:
                charge, due = pair
                if due > now:
                    self._dispatch(taken, now, late=late)
                    if lane.interval < SHORT_INTERVAL:
                        self._connection_to(charge.place.of(charge)).warm_up(now)
                    return due
                if charges.pop(charge, None) is not None:
                    taken.append(pair)
            self._dispatch(taken, now, late=late)
            if len(first) == size:
                return now  # the poll in between lets other threads run
        if lane.check_at > now:
            return lane.check_at
        self._armed.pop(lane, None)
        if self._lanes.get(lane.interval) is lane:
            del self._lanes[lane.interval]
        lane.armed = False
        if not charges:
            return float("inf")
        # Another thread added a charge between the two checks, and may have found the lane still armed.
        lane.armed = True
        self._armed[lane] = None
        self._lanes.setdefault(lane.interval, lane)
        return now

    def _dispatch(self, charges: list[tuple[Charge, float]], now: float, *, late: bool = False) -> None:
        sent = list[tuple[Charge, float]]()
        for pair in charges:
            charge = pair[0]
            try:
                if not charge.alive:
                    continue
                if late:
                    charge.late(now - pair[1])
                if charge.deadline <= now:
                    charge.overdue()
                else:
                    place = charge.place.of(charge)
                    connection = self._connections.get(place) or self._connection_to(place)
                    connection.waiting.append(pair)
                    sent.append(pair)
            except Exception as error:  # one charge in a bad state must not harm the others
                report(_FAILED, error, charge)
        self._look_after(sent, now)

    def _look_after(self, pairs: list[tuple[Charge, float]], now: float) -> None:
        """Schedules one check for charges that are away; as a rule they are answered long before `look`."""
        look, away = now + LOOK_AHEAD, list[Charge]()
        for charge, due in pairs:
            deadline = charge.deadline
            if deadline < float("inf"):
                self._away[charge] = due
                away.append(charge)
                if deadline < look:
                    look = deadline
        if away:
            self._later(look, lambda when: self._look_for(away, when))

    def _look_for(self, charges: list[Charge], now: float) -> None:
        for charge in charges:
            if charge in self._away and charge not in self._watched:
                try:
                    self._watch(charge, now)
                except Exception as error:
                    report(_FAILED, error, charge)

    def _watch(self, charge: Charge, now: float) -> None:
        """Keeps one agenda entry for each charge that is away for long, and moves it along with the deadline."""
        self._watched.discard(charge)
        if not charge.alive or charge.deadline <= now:
            self._away.pop(charge, None)
            if charge.alive:
                charge.overdue()
        elif charge in self._away:
            self._watched.add(charge)
            heapq.heappush(self._agenda, (charge.deadline, next(self._count), charge))

    def _later(self, when: float, what: Callable[[float], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._count), what))

    def _do_agenda(self, now: float) -> float:
        while self._agenda and self._agenda[0][0] <= now:
            _, _, what = heapq.heappop(self._agenda)
            try:
                if callable(what):
                    what(now)
                else:
                    self._watch(what, now)
            except Exception as error:
                report("something on the keeper's agenda failed", error)
        return self._agenda[0][0] if self._agenda else float("inf")

    def _connection_to(self, place: Place) -> "KeeperConnection":
        connection = self._connections.get(place)
        if connection is None:
            from holdtight.keeper.connection import KeeperConnection  # loaded with the first client

            connection = self._connections[place] = KeeperConnection(place, self)
            self._later(self.clock() + RECORD_TICK, lambda now: self._tick(connection, now))
        return connection

    def _tick(self, connection: "KeeperConnection", now: float) -> None:
        """Keeps the client's record while the client has charges; removes it when none is left."""
        place = connection.place
        if self._connections.get(place) is not connection:
            return
        busy = connection.busy or self.holds(place.whose) or next(self.charges(place.whose), None) is not None
        if connection.keep_record(now, busy=busy):
            self._later(now + RECORD_TICK, lambda later: self._tick(connection, later))
        else:
            self._retire(place)

    # Called by keeper connections.

    def register(self, fd: int, *, writing: bool) -> None:
        self._poller.register(fd, select.POLLIN | (select.POLLOUT if writing else 0))

    def unregister(self, fd: int) -> None:
        with suppress(KeyError):
            self._poller.unregister(fd)


runtime = Runtime(boottime, Keeper(), tell)
"""The runtime of all places except those of tests. A forked child gets a new keeper."""


def keeper() -> Keeper:
    """This process's keeper."""
    assert isinstance(runtime.keeper, Keeper)
    return runtime.keeper


def _after_fork() -> None:
    old, runtime.keeper = keeper(), Keeper()
    # The child must not wake its parent.
    old._pipe.close()  # pyright: ignore[reportPrivateUsage]
    for connection in old._connections.values():  # pyright: ignore[reportPrivateUsage]
        connection.abandon()


process.on_fork(_after_fork)
