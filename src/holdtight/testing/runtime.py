"""The runtime of a test clock: the counterpart of `keeper.runtime`, without any thread."""

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtight.base.callbacks import get_logger
from holdtight.base.clock import Clock
from holdtight.base.runtime import Runtime, Timer
from holdtight.keeper.keeper import Keeper
from holdtight.testing.loops import Loops
from holdtight.testing.waiters import HandSleeper, Waiters

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

__all__ = ["HandRuntime"]


class HandKeeper(Keeper):
    """The keeper without its thread: a thread that would wake the keeper does its work instead."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._running = threading.RLock()
        self._runner: int | None = None
        self._more = False
        self.next = float("inf")
        """The time at which work is due next."""

    @property
    def runs_here(self) -> bool:
        """True if the current thread is doing the keeper's work."""
        return self._runner == threading.get_ident()

    def wake(self) -> None:
        self.run()

    def run(self) -> None:
        """Does all work that is due."""
        with self._running:
            self._more = True
            if self._runner is not None:
                return
            self._runner = threading.get_ident()
            try:
                while self._more:
                    self._more = False
                    self._do_requested()
                    now = self.clock()
                    self.next = self._do_due(now)
                    self._more = self._more or self.next <= now
            finally:
                self._runner = None


class HandRuntime(Runtime):
    keeper: HandKeeper

    def __init__(self, clock: Clock, patience: float) -> None:
        super().__init__(clock, HandKeeper(clock), self._tell)
        self._patience = patience
        self._begin()

    def after_fork(self) -> None:
        self.keeper = HandKeeper(self.clock)
        self._begin()

    def _begin(self) -> None:
        self.waiters = Waiters(self.clock, self._patience)
        self.loops = Loops(self._patience)
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._choosing = threading.RLock()
        self._someone_tells = False

    def sleeper(self) -> HandSleeper:
        return HandSleeper(self.waiters)

    def call_soon(self, loop: "AbstractEventLoop", function: Callable[..., object], *args: Any) -> None:
        self.loops.call_soon(loop, function, *args)

    def call_at(self, loop: "AbstractEventLoop", when: float, function: Callable[..., object], *args: Any) -> Timer:
        return self.waiters.set(when, lambda: self.call_soon(loop, function, *args))

    # Callbacks.

    def _tell(self, function: Callable[..., object], *args: Any) -> None:
        """Runs callbacks one after another, in the thread that caused them, and never during the keeper's work."""
        self._calls.append((function, args))
        if not self.keeper.runs_here:
            self.tell_all()

    def tell_all(self) -> bool:
        """Runs all pending callbacks. False if there were none."""
        with self._choosing:
            if self._someone_tells:
                return False  # another thread, or the callback that caused this one, runs these as well
            self._someone_tells = True
        anything = False
        try:
            while (call := self._next_call()) is not None:
                anything = True
                function, args = call
                try:
                    function(*args)
                except Exception:
                    get_logger().exception("a callback of holdtight's failed: %r", function)
        except BaseException:
            self._someone_tells = False
            raise
        return anything

    def _next_call(self) -> tuple[Callable[..., object], tuple[Any, ...]] | None:
        with self._choosing:
            self._someone_tells = bool(self._calls)
            return self._calls.popleft() if self._calls else None
