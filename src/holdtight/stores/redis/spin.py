"""The spin wait: polls for a reply for a moment before the thread blocks.

The processor that runs the server has to wake a blocked thread. That takes longer than a nearby server needs for a
lock, and far longer on a virtual machine whose idle processor was given to another guest. So the caller polls for about
a tenth of a millisecond, and only then blocks. Every poll is a system call without the GIL, so other threads can run.

Spinning stops where it does not pay: the server is far away; the server needs the processor on which we spin; other
threads send requests too and make better use of the GIL; other processes preempt us. It is tried again from time to
time, in the end after one or two thousand replies.
"""

import resource
import socket
from collections.abc import Callable
from threading import get_ident
from typing import Any

__all__ = ["LinkSpinWait", "SpinWait"]

MOST_LOOKS = 100
MOST_CREDIT = 16
DEBIT = 2
"""The credit that a missed reply costs; a reply seen while spinning earns 1. So two of three should be seen."""
CHECK_EVERY = 64
"""The number of replies after which the spin wait checks whether the thread was preempted."""
_DO_NOT_WAIT = socket.MSG_DONTWAIT
_WHO = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

_latest = [0]
"""The last thread that used any spin wait."""


class SpinWait:
    """The spin wait of one link, or of several links that one thread waits for at once; used by one thread at a time.

    `rests` are the shortest and the longest rest, in calls of `again`.
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
        """Called from time to time: counts down the rest, and starts to spin again after it."""
        if not self.looking:
            self._rest -= 1
            if self._rest <= 0:
                self._begin()

    def read(self, recv: Callable[..., bytes], size: int) -> bytes:
        """Reads from a blocking socket."""
        if self._is_welcome():
            for looks in range(self._looks):
                try:
                    data = recv(size, _DO_NOT_WAIT)
                except BlockingIOError:
                    continue
                self._paid(looks)
                return data
            self._did_not_pay()
        return recv(size)

    def poll(self, poll: Callable[[float], list[Any]], ms: float) -> list[Any]:
        """Polls a poll object for at most so many milliseconds."""
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
        self._check = CHECK_EVERY
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
        if self._usual < 1:  # replies are there at once, as on a shared processor: the thread would not have blocked
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


class LinkSpinWait(SpinWait):
    """The spin wait of one link: while it spins, it replaces the read function in the link's `_bare`."""

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
