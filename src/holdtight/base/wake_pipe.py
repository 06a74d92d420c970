"""A pipe by which any thread wakes a polling thread."""

import os
from contextlib import suppress

__all__ = ["WakePipe"]


class WakePipe:
    """`fd` is the descriptor to poll; -1 until the pipe is opened."""

    def __init__(self) -> None:
        self.fd = self._end = -1

    def open(self) -> None:
        if self.fd < 0:
            self.fd, self._end = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._end, False)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full: a wake-up is pending anyway
            os.write(self._end, b"!")

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while len(os.read(self.fd, 4096)) == 4096:
                pass

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            os.close(self._end)
