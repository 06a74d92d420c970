"""`@pytest.mark.alone(why)`: no other test runs at the same time, in any worker. At most SLOTS of the
tests about time, which start servers and processes, run at once, so that two cores are enough.

This is a read-write lock made of two files. Every test holds `room` as a reader; a test that is alone holds it as the
writer. `door` keeps the writer from starving: while a process waits in the door, no other test enters. A writer waits
until all running tests have ended, so that a worker keeps the room from one test that is alone to the next.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["Room"]

DEMANDING = {"faults", "compat", "demo", "embedded", "topology"}
SLOTS = 8


class Room:
    def __init__(self, config: pytest.Config) -> None:
        run: str | None = getattr(config, "workerinput", {}).get("testrunuid")
        self._files: list[Path] = []
        if run is not None:  # one of several workers
            folder = Path(tempfile.gettempdir())
            self._files = [folder / f"holdtight-{run}-{part}" for part in ("door", "room")]
            self._files += [folder / f"holdtight-{run}-slot-{number}" for number in range(SLOTS)]
        self._fds = [os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600) for file in self._files]
        self._kept = False
        """Whether this worker has kept the room for a test that is alone."""

    @contextmanager
    def entered(self, item: pytest.Item, nextitem: pytest.Item | None = None) -> Iterator[None]:
        if not self._fds:
            yield
            return
        door, room, *slots = self._fds
        alone = item.get_closest_marker("alone")
        assert alone is None or alone.args, "alone needs a reason"
        how = fcntl.LOCK_SH if alone is None else fcntl.LOCK_EX
        slot = _free_one_of(slots) if alone is None and DEMANDING.intersection(item.path.parts) else None
        if not self._kept:
            fcntl.flock(door, how)
            fcntl.flock(room, how)
            fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            self._kept = alone is not None and nextitem is not None and bool(nextitem.get_closest_marker("alone"))
            if not self._kept:
                fcntl.flock(room, fcntl.LOCK_UN)
            if slot is not None:
                fcntl.flock(slot, fcntl.LOCK_UN)

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        for file in self._files:
            file.unlink(missing_ok=True)
        self._fds, self._files = [], []


def _free_one_of(slots: list[int]) -> int:
    while True:
        for slot in slots:
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return slot
        time.sleep(0.01)
