"""Who waits in this process, so that a release here wakes one of them at once rather than at its next look.

A hint and no more: whoever is woken asks the server like everybody else, and whoever is not looks every `sleep`
seconds as ever. So nothing here is locked against other threads, or against a signal handler that releases: the worst
that can come of it is a hint too few. Nothing about it is on the server, where locks of this kind keep no line.
"""

from typing import Protocol

__all__ = ["Line", "Waiter"]


class Waiter(Protocol):
    rung: bool
    """Has been woken, and has not looked since."""

    def wake(self) -> None:
        """From any thread."""


class Line:
    def __init__(self) -> None:
        self._waiting: dict[bytes, list[Waiter]] = {}

    def join(self, key: bytes, waiter: Waiter) -> None:
        self._waiting.setdefault(key, []).append(waiter)

    def leave(self, key: bytes, waiter: Waiter) -> None:
        waiting = self._waiting.get(key, [])
        if waiter in waiting:
            waiting.remove(waiter)
        if not waiting:
            self._waiting.pop(key, None)

    def ring(self, key: bytes) -> None:
        """Wakes the one who has waited longest of those who are asleep."""
        if key not in self._waiting:
            return
        for waiter in list(self._waiting.get(key, ())):
            if not waiter.rung:
                waiter.rung = True
                waiter.wake()
                return
