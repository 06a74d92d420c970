"""Rounds of questions, which the scouts of both topologies ask: a caller gets what a round says that began after its
call."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from holdtight.base.clock import boottime
from holdtight.base.plan import LinkDown, ServerSaid

__all__ = ["SILENT", "THREAD_NAME", "Rounds"]

THREAD_NAME = "holdtight-scout"
SILENT = "it does not answer"


class Rounds:
    """`_wanted` counts the questions, `_round` is the last round that began, `_finished` the last that ended."""

    def _begin_rounds(self) -> None:
        self._changed = threading.Condition()  # re-entrant: a signal handler may connect meanwhile
        self._thread: threading.Thread | None = None
        self._askers = 0
        self._wanted = self._round = self._finished = 0
        self._error: LinkDown | ServerSaid | None = None
        self._leaving = False

    def _want(self) -> int:
        """Has a round begin soon; returns the first that counts."""
        raise NotImplementedError

    @contextmanager
    def _asked(self, until: float, nobody: str) -> Generator[None, None, None]:
        """The body runs after a round that began now, and while nothing changes. Raises LinkDown or ServerSaid if
        nobody says."""
        with self._changed:
            mine = self._want()
            self._askers += 1
            try:
                while self._finished < mine:
                    if not self._changed.wait(max(0.0, until - boottime())):
                        before = f"; before that: {self._error}" if self._error is not None else ""
                        raise LinkDown(f"no {nobody} answered in time{before}", sent=False, silent=True)
            finally:
                self._askers -= 1
            if isinstance(self._error, ServerSaid):
                raise ServerSaid(str(self._error))
            if self._error is not None:
                raise LinkDown(self._error.cause, sent=False, silent=self._error.silent)
            yield
