"""Fork handling: a child process owns nothing of its parent's.

`epoch` counts forks; state that belongs to one process carries the epoch in which it was made. Code that
keeps threads, descriptors or identities registers here and is called once, in the child, before any
other code of the child runs.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

__all__ = ["Forkable", "abandon_descriptor", "current", "on_fork", "start_thread", "tell_of_fork"]


class Forkable(Protocol):
    def after_fork(self) -> None: ...


class _Process:
    __slots__ = ("epoch",)

    def __init__(self) -> None:
        self.epoch = 0


current = _Process()
_told: "weakref.WeakSet[Any]" = weakref.WeakSet()
_functions: list[Callable[[], None]] = []


def on_fork(function: Callable[[], None]) -> None:
    """Registers a module's function; in the child these run first."""
    _functions.append(function)


def tell_of_fork(forkable: Forkable) -> None:
    """Registers an object, weakly; its `after_fork` is called in the child."""
    _told.add(forkable)


def _after_fork() -> None:
    current.epoch += 1
    for tell in [*_functions, *(forkable.after_fork for forkable in list(_told))]:
        try:
            tell()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)  # continue: the others must be told as well


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Starts a daemon thread with signals blocked: if the kernel delivered one to it, the main thread would sleep on,
    and Ctrl-C would have no effect until it wakes. Raises RuntimeError if no more threads can be started."""

    def run() -> None:
        import signal

        own = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - own)
        target()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def abandon_descriptor(fd: int) -> None:
    """Drops an inherited connection without sending anything on it. The number stays open, on /dev/null, because a
    Python object still refers to it and will close it."""
    with suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.dup2(nothing, fd, inheritable=False)
        finally:
            os.close(nothing)
