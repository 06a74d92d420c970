"""What changes when this process forks. A child owns nothing of its parent's.

`epoch` counts forks; state that belongs to one process carries the epoch in which it was made. Whoever
keeps threads, descriptors or identities registers here and is told once, in the child, before any
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
    """For a module: called first, in the child."""
    _functions.append(function)


def tell_of_fork(forkable: Forkable) -> None:
    """For an object, which is held weakly: its `after_fork` is called in the child."""
    _told.add(forkable)


def _after_fork() -> None:
    current.epoch += 1
    for tell in [*_functions, *(forkable.after_fork for forkable in list(_told))]:
        try:
            tell()
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)  # and on: the others must be told as well


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """A daemon thread in the background. Signals are kept out of it: one that the kernel gives to a thread of ours
    would leave the main thread asleep, and a Ctrl-C without effect until it wakes. RuntimeError if there can be no
    more threads."""

    def run() -> None:
        import signal

        own = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - own)
        target()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def abandon_descriptor(fd: int) -> None:
    """Lets go of an inherited connection without a word on it, and without pulling the number from
    under a Python object that will close it once more."""
    with suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.dup2(nothing, fd, inheritable=False)
        finally:
            os.close(nothing)
