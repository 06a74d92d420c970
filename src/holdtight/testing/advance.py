"""A clock that the test advances, and the work that becomes due meanwhile."""

import asyncio
import threading
import warnings
import weakref
from collections.abc import Generator
from typing import Any

from holdtight.base import process
from holdtight.base.clock import Duration, seconds
from holdtight.config.targets import Memory
from holdtight.stores.memory.place import Stores
from holdtight.testing.loops import is_blind
from holdtight.testing.runtime import HandRuntime

__all__ = ["Advance", "Clock"]

BEGINNING_US = 1_800_000_000_000_000
"""The stores' time when the test clock shows 0: early in 2027, since fences must have 16 digits."""


class Clock:
    """A clock that stands still until `advance` moves it, and memory stores that use it.

    Clients on such a store share nothing with other clients, start no threads, and do all work in the thread that
    causes it. `patience` (real time) limits how long `advance` waits for a thread that it has woken and that neither
    ends nor waits for anything. Default 1 s.

    Example:
        >>> from holdtight.testing import Clock
        >>> clock = Clock()
        >>> with Locks(clock.store(), ttl=10) as slow:
        ...     lease = slow.lock("order:42", renew=False).acquire()
        ...     _ = clock.advance("11s")
        ...     lease.lost, clock.now()
        (True, 11.0)
    """

    def __init__(self, *, patience: Duration = 1.0) -> None:
        self._us = 0
        self.stores = Stores(lambda: BEGINNING_US + self._us)
        self.runtime = HandRuntime(self.now, seconds(patience, "patience"))
        self._moving = threading.Lock()
        self._unfinished: weakref.ref[Advance] | None = None
        process.tell_of_fork(self)

    def now(self) -> float:
        """Seconds since the clock was made.

        Example:
            >>> clock = Clock()
            >>> _ = clock.advance("1m")
            >>> clock.now()
            60.0
        """
        return self._us / 1e6

    def store(self, name: str = "") -> Memory:
        """A store on this clock, as target of a client: `Locks(clock.store())`. There is one store per `name`.

        Example:
            >>> clock = Clock()
            >>> with Locks(clock.store("a")) as one, Locks(clock.store("b")) as other, one.lock("order:42"):
            ...     one.lock("order:42").locked(), other.lock("order:42").locked()
            (True, False)
        """
        return Memory(name, self)

    @property
    def waiting(self) -> int:
        """The number of threads and tasks that wait on this clock: for a lock, or in `wait_lost`.

        Example:
            >>> Clock().waiting
            0
        """
        return len(self.runtime.waiters)

    def until_waiting(self, count: int = 1, *, within: Duration = 10) -> None:
        """Blocks until `count` threads and tasks wait on this clock. Raises AssertionError after `within`, in real
        time.

        Example:
            >>> import threading
            >>> clock = Clock()
            >>> with Locks(clock.store()) as locks, locks.lock("order:42") as lease:
            ...     thread = threading.Thread(target=lambda: lease.wait_lost(timeout=60))
            ...     thread.start()
            ...     clock.until_waiting(1)
            ...     _ = clock.advance("61s")
            ...     thread.join()
        """
        if not self.runtime.waiters.until(count, seconds(within, "within")):
            raise AssertionError(f"{self.waiting} threads and tasks wait on the clock after {within} s, not {count}")

    def advance(self, duration: Duration) -> "Advance":
        """Advances the clock by `duration`, and does all work that becomes due, in the order of time.

        Renewals, losses, timeouts and retries of waiters each happen at their own time. A woken thread runs until it
        waits on the clock again, ends, or waits for something else; all callbacks have run when this returns.

        If an event loop runs in this thread, await the result: woken tasks then run at their own time. Without `await`
        the clock advances as far as it can without them, which is all the way if no task has to run; otherwise it stops
        there, and a RuntimeWarning says so.

        Example:
            >>> clock = Clock()
            >>> with Locks(clock.store(), ttl=10) as locks, locks.lock("order:42") as lease:
            ...     _ = clock.advance("1h")
            ...     lease.lost
            False
        """
        under_way = self._unfinished() if self._unfinished is not None else None
        if under_way is not None and not under_way.done:
            raise RuntimeError(f"{under_way!r} has not finished: await it first")
        advance = Advance(self, round(seconds(duration, "duration") * 1e6), _running_loop())
        self._unfinished = weakref.ref(advance)
        return advance

    def stop(self) -> None:
        """Ends the test: threads that still wait on this clock get a RuntimeError."""
        self.runtime.waiters.stop()

    def go_on(self, end: int, own: asyncio.AbstractEventLoop | None, *, spins: bool = False) -> bool:
        """For Advance: advances as far as possible. False if the running loop must turn first. A loop that `spins`
        always has something to do: it must turn only for calls that we have scheduled."""
        if not self._moving.acquire(blocking=False):
            raise RuntimeError(
                "the clock is being advanced already: by another thread, or by what called this callback"
            )
        try:
            with self.runtime.waiters.one_at_a_time():
                return self._go_on(end, own, spins)
        finally:
            self._moving.release()

    def _go_on(self, end: int, own: asyncio.AbstractEventLoop | None, spins: bool) -> bool:
        keeper, waiters, loops = self.runtime.keeper, self.runtime.waiters, self.runtime.loops
        while True:
            self._settle(own)
            if own is not None and (loops.was_called(own) if spins else loops.must_turn(own)):
                return False
            moment = self._moment(min(keeper.next, waiters.next()))
            if moment > end:
                self._us = max(self._us, end)
                return True
            self._us = max(self._us, moment)
            if keeper.next <= self.now():
                keeper.run()
            else:
                waiters.ring_first()

    def _settle(self, own: asyncio.AbstractEventLoop | None) -> None:
        """Runs everything that is due now, except in the loop of this thread."""
        runtime = self.runtime
        while runtime.waiters.settle() or runtime.tell_all() or runtime.loops.turn_others(own):
            pass

    def _moment(self, due: float) -> int:
        """The first microsecond that is not before `due`."""
        if due == float("inf"):
            return 1 << 62
        moment = int(due * 1e6)
        while moment / 1e6 < due:
            moment += 1
        return moment

    @property
    def us(self) -> int:
        return self._us

    def after_fork(self) -> None:
        self.runtime.after_fork()
        self._moving = threading.Lock()

    def __repr__(self) -> str:
        return f"<Clock {self.now():g} s>"


class Advance:
    """The result of `clock.advance`. Awaiting it takes the clock all the way."""

    def __init__(self, clock: Clock, us: int, loop: asyncio.AbstractEventLoop | None) -> None:
        self._clock = clock
        self._by = us / 1e6
        self._loop = loop
        self._end = clock.us + us
        self.done = True  # if the next line raises, there is nothing to await
        self.done = (loop is None or not is_blind(loop)) and clock.go_on(self._end, loop)

    def __await__(self) -> Generator[Any, None, None]:
        loop, runtime = asyncio.get_running_loop(), self._clock.runtime
        if not self.done and loop is not self._loop:
            raise RuntimeError("await an advance on the event loop that called it")
        done, self.done = self.done, True  # in any case: a cancellation leaves the clock where it is
        with runtime.waiters.one_at_a_time():
            quiet = yield from runtime.loops.turn(loop).__await__()
            while not done:
                done = self._clock.go_on(self._end, loop, spins=not quiet)
                if not done:
                    quiet = yield from runtime.loops.turn(loop).__await__()

    def __repr__(self) -> str:
        return f"<advance({self._by:g}) of {self._clock!r}>"

    def __del__(self) -> None:
        if not getattr(self, "done", True):  # an interrupt may have ended __init__ before it was set
            warnings.warn(
                f"{self!r} was never awaited: a task had to run first, and the time has stopped there",
                RuntimeWarning,
                source=self,
                stacklevel=2,
            )


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
