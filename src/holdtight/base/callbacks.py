"""The callback thread: user code never runs in the keeper's thread.

Callbacks, event subscribers, log handlers and warnings that the keeper triggers are queued here and run
one after another. The thread starts with the first call. It is a daemon and delays no exit.
"""

import queue
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtight.base import process

if TYPE_CHECKING:
    import logging

__all__ = ["DEBUG", "INFO", "WARNING", "get_logger", "is_logged", "report", "tell"]

DEBUG, INFO, WARNING = 10, 20, 30
"""The levels of logging, which may not be loaded."""


def get_logger() -> "logging.Logger":
    """The package's logger, silent by default. `logging` is loaded with the first client, not with the package."""
    import logging

    logger = logging.getLogger("holdtight")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


def is_logged(level: int) -> bool:
    """Whether a record of `level` would be logged. If `logging` is not loaded, nobody has configured it."""
    return "logging" in sys.modules and get_logger().isEnabledFor(level)


class _CallbackThread:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.SimpleQueue()
        self._starting = threading.RLock()  # re-entrant: a signal handler may interrupt its owner
        self._seat = threading.Lock()  # held by the running thread; an interrupt may have left `_thread` None
        self._thread: threading.Thread | None = None

    def tell(self, function: Callable[..., object], *args: Any) -> None:
        self._calls.put((function, args))
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    try:
                        self._thread = process.start_thread(self._run, "holdtight-callbacks")
                    except RuntimeError:
                        return  # out of threads: the next tell() tries again

    def _run(self) -> None:
        if not self._seat.acquire(blocking=False):
            return  # another callback thread runs already
        self._thread = threading.current_thread()
        while True:
            function, args = self._calls.get()
            try:
                function(*args)
            except BaseException:  # sys.exit() in a callback must not silence all later ones
                get_logger().exception("a callback of holdtight's failed: %r", function)
            del function, args


_callback_thread = _CallbackThread()


def tell(function: Callable[..., object], *args: Any) -> None:
    """Calls `function(*args)` in the callback thread. Never blocks; errors are logged."""
    _callback_thread.tell(function, *args)


def report(what: str, error: Exception, *args: Any) -> None:
    """Logs an error of the keeper with its traceback, in the callback thread."""
    tell(lambda: get_logger().error(what, *args, exc_info=error))


def _after_fork() -> None:
    global _callback_thread
    _callback_thread = _CallbackThread()


process.on_fork(_after_fork)
