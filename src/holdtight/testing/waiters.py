"""All waits on a test clock: sleeping threads, and timed calls on event loops.

While the clock advances, only one of the threads runs at a time: a thread that is woken meanwhile waits until those
before it have *settled*. A thread has settled when it sleeps on the clock again, has ended, or waits for something
else; after a while, a thread that does none of these is no longer waited for.

Invariants:
- `_awake` has the threads that were woken and have not settled yet;
- a sleeper is in `_asleep` from `lie_down` until it is let go; a sleeper in `_called` is going to be let go.
"""

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from holdtight.base.clock import Clock, Sleeper

__all__ = ["Alarm", "HandSleeper", "Waiters"]

LOOKS = 5
"""How many checks in a row must find a thread waiting for something else."""
PAUSE = 0.001


class Alarm:
    """A call that is due at a given time."""

    __slots__ = ("_ring", "live")

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self.live = True

    def ring(self) -> None:
        if self.live:
            self.live = False
            self._ring()

    def cancel(self) -> None:
        self.live = False


class Waiters:
    def __init__(self, clock: Clock, patience: float) -> None:
        self.clock = clock
        self._patience = patience
        self.mutex = threading.RLock()  # re-entrant: a finalizer may ring
        self._changed = threading.Condition(self.mutex)
        self._due: list[tuple[float, int, Alarm]] = []
        self._count = itertools.count()
        self._asleep: set[HandSleeper] = set()
        self._called: deque[HandSleeper] = deque()
        self._awake: dict[threading.Thread, None] = {}
        self._holds = 0
        """Above 0 while the clock advances: a woken thread then waits for its turn."""
        self._mover: int | None = None
        """The thread that advances the clock."""
        self.stopped = False

    # Alarms.

    def set(self, when: float, ring: Callable[[], None]) -> Alarm:
        alarm = Alarm(ring)
        with self.mutex:
            heapq.heappush(self._due, (when, next(self._count), alarm))
        return alarm

    def next(self) -> float:
        """The time of the next live alarm."""
        with self.mutex:
            while self._due and not self._due[0][2].live:
                heapq.heappop(self._due)
            return self._due[0][0] if self._due else float("inf")

    def ring_first(self) -> None:
        with self.mutex:
            if self.next() <= self.clock():
                heapq.heappop(self._due)[2].ring()

    def __len__(self) -> int:
        """The number of waiting threads and of timers on event loops."""
        with self.mutex:
            return sum(alarm.live for _, _, alarm in self._due) + sum(each.for_ever for each in self._asleep)

    # Threads. Callers hold the mutex.

    def lie_down(self, sleeper: "HandSleeper") -> None:
        self._asleep.add(sleeper)
        self._awake.pop(threading.current_thread(), None)
        self._changed.notify_all()

    def get_up(self, sleeper: "HandSleeper") -> None:
        """Runs after every wake-up, also by an exception in the sleeping thread."""
        self._asleep.discard(sleeper)
        if sleeper in self._called:
            self._called.remove(sleeper)

    def call(self, sleeper: "HandSleeper") -> None:
        if sleeper not in self._asleep or sleeper in self._called:
            return
        self._called.append(sleeper)
        if not self._holds:
            self._let_go(self._called.popleft())

    def _let_go(self, sleeper: "HandSleeper") -> None:
        self._asleep.discard(sleeper)
        self._awake[sleeper.thread] = None
        sleeper.gate.put(None)

    @contextmanager
    def one_at_a_time(self) -> Generator[None]:
        with self.mutex:
            self._holds += 1
            self._mover = threading.get_ident()
        try:
            yield
        finally:
            with self.mutex:
                self._holds -= 1
                if not self._holds:
                    self._mover = None
                while self._called and not self._holds:
                    self._let_go(self._called.popleft())

    def refuse_sleep(self) -> None:
        """Raises if a sleep would never end."""
        if self.stopped:
            raise RuntimeError("this thread still waited on a test clock when its test ended")
        if self._mover == threading.get_ident():
            raise RuntimeError(
                "this would wait for ever: the thread that advances the test clock cannot wait on it, neither in a "
                "callback nor with blocking locks in a task"
            )

    # Settling, without the mutex.

    def settle(self) -> bool:
        """Waits until all woken threads have settled, one after the other. False if there were none."""
        me = threading.current_thread()
        anybody = False
        while True:
            with self.mutex:
                thread = next((each for each in self._awake if each is not me), None)
                if thread is None:
                    if not self._called:
                        return anybody
                    self._let_go(self._called.popleft())
                    continue
            anybody = True
            self._wait_for(thread)

    def _wait_for(self, thread: threading.Thread) -> None:
        end = time.monotonic() + self._patience
        waiting = 0
        while thread.is_alive() and waiting < LOOKS and time.monotonic() < end:
            with self._changed:
                if thread not in self._awake or (self._changed.wait(PAUSE) and thread not in self._awake):
                    return
            waiting = waiting + 1 if _is_waiting(thread) else 0
        with self.mutex:
            self._awake.pop(thread, None)

    def until(self, count: int, within: float) -> bool:
        """Waits, in real time, until `count` threads and timers wait; False if they do not."""
        end = time.monotonic() + within
        with self._changed:
            while len(self) < count:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, 0.01))
            return True

    def stop(self) -> None:
        """Wakes all threads and refuses further sleeps."""
        with self.mutex:
            self.stopped = True
            for sleeper in list(self._asleep):
                self.call(sleeper)


class HandSleeper(Sleeper):
    """A Sleeper whose thread sleeps on a test clock."""

    def __init__(self, waiters: Waiters) -> None:
        self._waiters = waiters
        self._items: deque[Any] = deque()
        self.gate: SimpleQueue[None] = SimpleQueue()
        self.thread = threading.current_thread()
        self.for_ever = False
        self.wake = self._wake

    def _wake(self, item: Any) -> None:
        with self._waiters.mutex:
            self._items.append(item)
            self._waiters.call(self)

    def _time_is_up(self) -> None:
        self._waiters.call(self)

    def sleep(self, until: float) -> Any:
        waiters = self._waiters
        with waiters.mutex:
            if self._items:
                return self._items.popleft()
            if until <= waiters.clock():
                return None
            waiters.refuse_sleep()
            self.thread = threading.current_thread()
            self.gate = SimpleQueue()  # a new one: after an exception, the old one may still hold a wake-up
            self.for_ever = until == float("inf")
            alarm = None if self.for_ever else waiters.set(until, self._time_is_up)
            waiters.lie_down(self)
        try:
            self.gate.get()
        finally:
            with waiters.mutex:
                if alarm is not None:
                    alarm.cancel()
                waiters.get_up(self)
        with waiters.mutex:
            if waiters.stopped:
                waiters.refuse_sleep()
            return self._items.popleft() if self._items else None

    def forget(self) -> None:
        with self._waiters.mutex:
            self._items.clear()


def _is_waiting(thread: threading.Thread) -> bool:
    """True if the system has put the thread to sleep. Only Linux tells; False elsewhere.

    A thread that is ready but does not get a processor is not asleep. A thread that waits for the GIL is asleep, but
    not for long: the checking thread releases the GIL between its checks.
    """
    try:
        with open(f"/proc/self/task/{thread.native_id}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] == b"S"
    except OSError:
        return False
