"""The waiters of this process, so that a release here wakes one of them at once, before its next poll.

This is only a hint: a woken waiter asks the server as usual, and all others poll every `sleep` seconds anyway. So
nothing here is locked against other threads, or against a signal handler that releases: the worst result is a missing
hint. The server knows nothing of it: locks of this kind have no queue there.
"""

from typing import Protocol

__all__ = ["Line", "Waiter"]


class Waiter(Protocol):
    rung: bool
    """True if the waiter was woken and has not polled since."""

    def wake(self) -> None:
        """May be called from any thread."""


class Line:
    def __init__(self) -> None:
        self.waiting: dict[bytes, list[Waiter]] = {}

    def join(self, key: bytes, waiter: Waiter) -> None:
        self.waiting.setdefault(key, []).append(waiter)

    def leave(self, key: bytes, waiter: Waiter) -> None:
        waiting = self.waiting.get(key, [])
        if waiter in waiting:
            waiting.remove(waiter)
        if not waiting:
            self.waiting.pop(key, None)

    def ring(self, key: bytes) -> None:
        """Wakes the sleeping waiter that has waited longest."""
        if key not in self.waiting:
            return
        for waiter in list(self.waiting.get(key, ())):
            if not waiter.rung:
                waiter.rung = True
                waiter.wake()
                return
