"""`@pytest.mark.alone(why)`: no other test runs at the same time, in whatever worker.

A read-write lock of two files: every test shares the room, one that is alone has it to itself. The door is there so
that it need not wait for ever: who stands in it lets nobody else in.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["Room"]


class Room:
    def __init__(self, config: pytest.Config) -> None:
        run: str | None = getattr(config, "workerinput", {}).get("testrunuid")
        self._files: list[Path] = []
        if run is not None:  # one of several workers
            folder = Path(tempfile.gettempdir())
            self._files = [folder / f"holdtight-{run}-{part}" for part in ("door", "room")]
        self._fds = [os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) for file in self._files]

    @contextmanager
    def entered(self, item: pytest.Item) -> Iterator[None]:
        if not self._fds:
            yield
            return
        door, room = self._fds
        alone = item.get_closest_marker("alone")
        assert alone is None or alone.args, "alone needs a reason"
        how = fcntl.LOCK_SH if alone is None else fcntl.LOCK_EX
        fcntl.flock(door, how)
        fcntl.flock(room, how)
        fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(room, fcntl.LOCK_UN)

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        for file in self._files:
            file.unlink(missing_ok=True)
        self._fds, self._files = [], []
