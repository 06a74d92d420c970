"""Looking for an answer for a moment before one sleeps until it comes.

A thread that sleeps has to be woken, by the processor on which the server runs, which takes longer than a server that
is near needs for a lock: far longer on a virtual machine, whose idle processor has been given to somebody else. So who
asks looks again and again, a tenth of a millisecond or so, and sleeps only then. Every look is a system call without
Python's lock: other threads are not kept from their work.

Where it does not pay it is left: the server is far; it waits for the very processor on which we look; other threads
ask as well, which have better use for Python's lock; other processes want the processor, and take it away from us. Once
in a while it is tried again, after a thousand answers or two at last.
"""

import resource
import socket
from collections.abc import Callable
from threading import get_ident
from typing import Any

__all__ = ["LinkLookout", "SpinWait"]

MOST_LOOKS = 100
MOST_CREDIT = 16
DEBIT = 2
"""What one answer that was not seen costs of what those earned that were: two of three should be."""
CHECK = 64
"""After so many answers it is seen whether the processor was taken away meanwhile."""
_AT_ONCE = socket.MSG_DONTWAIT
_WHO = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

_latest = [0]
"""The thread that has asked last, of all that look."""


class SpinWait:
    """Of one link, or of several that are waited for at once: used by one thread at a time.

    `rests` are the shortest and the longest time of rest, in calls of `again`.
    """

    __slots__ = ("_check", "_credit", "_looks", "_next_rest", "_rest", "_rests", "_taken_away", "_usual", "looking")

    def __init__(self, rests: tuple[int, int]) -> None:
        self._rests = rests
        self._next_rest = rests[0]
        self._begin()

    def _begin(self) -> None:
        self.looking = True
        self._rest = 0
        self._credit = 2 * DEBIT
        self._looks = MOST_LOOKS
        self._usual = MOST_LOOKS / 4
        self._check = 0
        self._taken_away = 0

    def again(self) -> None:
        """Some time has passed."""
        if not self.looking:
            self._rest -= 1
            if self._rest <= 0:
                self._begin()

    def read(self, recv: Callable[..., bytes], size: int) -> bytes:
        """What comes by a socket that blocks."""
        if self._is_welcome():
            for looks in range(self._looks):
                try:
                    data = recv(size, _AT_ONCE)
                except BlockingIOError:
                    continue
                self._paid(looks)
                return data
            self._did_not_pay()
        return recv(size)

    def poll(self, poll: Callable[[float], list[Any]], ms: float) -> list[Any]:
        """What a poll object says within so many milliseconds."""
        if self._is_welcome():
            for looks in range(self._looks):
                found = poll(0)
                if found:
                    self._paid(looks)
                    return found
            self._did_not_pay()
        return poll(ms)

    def _is_welcome(self) -> bool:
        me = get_ident()
        if _latest[0] != me:
            others, _latest[0] = _latest[0], me
            if others:
                self._sleep(self._rests[0])
                return False
        if self._check > 0:
            self._check -= 1
            return True
        first = not self._taken_away
        before, self._taken_away = self._taken_away, 1 + resource.getrusage(_WHO).ru_nivcsw
        self._check = CHECK
        if first:
            return True
        if self._taken_away > before + 1:
            self._rest_longer()
            return False
        if self._taken_away == before:
            self._next_rest = self._rests[0]
        return True

    def _paid(self, looks: int) -> None:
        if self._credit < MOST_CREDIT:
            self._credit += 1
        more = looks - self._usual
        self._usual += more / 2 if more > 0 else more / 32
        self._looks = min(MOST_LOOKS, 4 + int(2 * self._usual))
        if self._usual < 1:  # it is there at once, as on a processor that we share: nobody would have slept
            self._next_rest = self._rests[1]
            self._rest_longer()

    def _did_not_pay(self) -> None:
        self._credit -= DEBIT
        if self._credit < 0:
            self._rest_longer()

    def _rest_longer(self) -> None:
        self._sleep(self._next_rest)
        self._next_rest = min(self._rests[1], 2 * self._next_rest)

    def _sleep(self, rest: int) -> None:
        self.looking = False
        self._rest = rest


class LinkLookout(SpinWait):
    """As long as it looks it stands in the place of what reads from a descriptor, which is the second of what a link
    uses."""

    __slots__ = ("_bare", "_read", "_recv")

    def __init__(self, bare: list[Any], recv: Callable[..., bytes]) -> None:
        self._bare = bare
        self._read = bare[1]
        self._recv = recv
        super().__init__((1, 8))

    def _begin(self) -> None:
        super()._begin()
        self._bare[1] = self.receive

    def _sleep(self, rest: int) -> None:
        super()._sleep(rest)
        self._bare[1] = self._read

    def receive(self, fd: int, size: int) -> bytes:
        return self.read(self._recv, size)
