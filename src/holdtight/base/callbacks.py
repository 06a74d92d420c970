"""The thread for callbacks, so that nobody else's code ever runs in the keeper.

Callbacks, event subscribers, log handlers and warnings that the keeper causes are queued here and run
one after another. The thread starts with the first of them and is a daemon: it holds up no exit.
"""

import queue
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtight.base import process

if TYPE_CHECKING:
    import logging

__all__ = ["get_logger", "is_logged", "report", "tell"]


def get_logger() -> "logging.Logger":
    """Ours, silent by default. `logging` is loaded with the first client, not with the package."""
    import logging

    logger = logging.getLogger("holdtight")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def is_logged(level: int) -> bool:
    """Whether anybody can want to read it: who has not loaded `logging` has not configured it."""
    return "logging" in sys.modules and get_logger().isEnabledFor(level)


class _Herald:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.SimpleQueue()
        self._starting = threading.RLock()  # re-entrant: a signal handler may come in the middle of it
        self._seat = threading.Lock()  # of the one thread: an interrupt leaves open whether it was started
        self._thread: threading.Thread | None = None

    def tell(self, function: Callable[..., object], *args: Any) -> None:
        self._calls.put((function, args))
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    try:
                        self._thread = process.start_thread(self._run, "holdtight-herald")
                    except RuntimeError:
                        return  # no more threads: the next teller tries again

    def _run(self) -> None:
        if not self._seat.acquire(blocking=False):
            return  # there is one already
        self._thread = threading.current_thread()
        while True:
            function, args = self._calls.get()
            try:
                function(*args)
            except BaseException:  # sys.exit() in a callback must not silence all later ones
                get_logger().exception("a callback of holdtight's failed: %r", function)
            del function, args


_herald = _Herald()


def tell(function: Callable[..., object], *args: Any) -> None:
    """Have `function(*args)` called in the callback thread. Never blocks; errors are logged."""
    _herald.tell(function, *args)


def report(what: str, error: Exception, *args: Any) -> None:
    """Has something that went wrong in the keeper logged, with its traceback."""
    tell(lambda: get_logger().error(what, *args, exc_info=error))


def _after_fork() -> None:
    global _herald
    _herald = _Herald()


process.on_fork(_after_fork)
