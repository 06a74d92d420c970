"""The history of locks, kept on the lock server for the page of the lock service: events, and counts for each minute.

`Notes` collects events and counts; the service and the sink of a recorder write them a few times a second.
"""

import os
import re
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.records import ENDED, EXPIRED, FAILED, FORCED, GRANTED, LOST
from holdtight.ops.recorder import Record
from holdtight.stores.boundary import Link, Place

__all__ = ["BUCKETS", "HistorySink", "Notes", "bucket_of", "template_of"]

GRANTS = 200
"""At most this many grants and releases a second become events; all of them are counted."""
MOST_PENDING = 10_000
TEMPLATES = 100
BUCKETS = 26
PATIENCE = 1.0
BACK_OFF = 5.0
EVENTS_IN_A_WRITE = 500
_OFTEN = ("granted", "released")
_ONCE = ("granted", "lost", "detached", "adopted", "downgraded")
_TOLD_BY_OTHERS = ("taken", "forced")
"""Losses that the next holder, or the operator, has counted as well."""
MOST_TOLD = 4096
_DIGITS = re.compile(r"[0-9]+")

Event = dict[str, Any]
Counts = dict[int, dict[str, int]]
_Tallies = dict[str | tuple[str, int, str], int]
"""By kind of event; or by what was measured, its bucket and the template."""


@lru_cache(4096)
def template_of(name: str) -> str:
    """Names that differ in numbers only count as one."""
    return _DIGITS.sub("#", name)[:200]


def bucket_of(seconds: float) -> int:
    """Bucket n has times of less than 2**n ms."""
    return min(BUCKETS - 1, max(0, int(seconds * 1000)).bit_length())


class Notes:
    """Events and counts that have not been written. `at` is the lock server's time of day."""

    def __init__(self) -> None:
        self._pending: deque[Event] = deque(maxlen=MOST_PENDING)
        self._counts: dict[int, _Tallies] = {}
        self._templates: tuple[int, set[str]] = 0, set()
        """Those of a minute: new ones are measured in the next, however many there were before."""
        self._second, self._written = 0, 0
        self._told: OrderedDict[tuple[str, str | None, int], None] = OrderedDict()

    def note(
        self,
        kind: str,
        at: float,
        name: str | None,
        fence: int | None,
        by: str | None,
        *,
        held: float | None = None,
        **more: Any,
    ) -> None:
        if fence is not None and kind in _ONCE and self._is_known((kind, name, fence)):
            return
        second = int(at)
        counts = self._counts.get(second // 60)
        if counts is None:
            counts = self._counts[second // 60] = {}
        counts[kind] = counts.get(kind, 0) + 1
        if name is not None:
            if kind == "granted":
                self._measure(counts, second // 60, "w", name, more.get("waited") or 0.0)
            elif kind == "released" and held is not None:
                self._measure(counts, second // 60, "h", name, held)
            elif kind == "lost" and more.get("reason") in _TOLD_BY_OTHERS:
                counts["lost_told"] = counts.get("lost_told", 0) + 1
        if kind in _OFTEN:
            if second != self._second:
                self._second, self._written = second, 0
            self._written += 1
            if self._written > GRANTS:
                return
        event: Event = {"kind": kind, "at": round(at, 3), "name": name, "fence": fence, "by": by}
        event.update({key: value for key, value in more.items() if value is not None})
        self._pending.append(event)

    def _is_known(self, told: tuple[str, str | None, int]) -> bool:
        """What is asked for again gives the same grant, and a loss that is told again is the same one."""
        if told in self._told:
            return True
        self._told[told] = None
        if len(self._told) > MOST_TOLD:
            self._told.popitem(last=False)
        return False

    def _measure(self, counts: _Tallies, minute: int, what: str, name: str, seconds: float) -> None:
        template = template_of(name)
        of, templates = self._templates
        if of != minute:
            templates = set[str]()
            self._templates = minute, templates
        if template not in templates:
            if len(templates) >= TEMPLATES:
                return
            templates.add(template)
        field = (what, bucket_of(seconds), template)
        counts[field] = counts.get(field, 0) + 1

    def take(self) -> tuple[list[Event], Counts]:
        events, counts = list(self._pending), self._counts
        self._pending.clear()
        self._counts = {}
        return events, {minute: {_field(key): n for key, n in found.items()} for minute, found in counts.items()}


def _field(key: str | tuple[str, int, str]) -> str:
    return key if isinstance(key, str) else "{}:{}:{}".format(*key)


class HistorySink:
    """Writes the records of one client on its own connection. Drops what it cannot write."""

    def __init__(self, place: Place, closed: Callable[[], bool]) -> None:
        self._place = place
        self._closed = closed
        """Whether the client is closed: then the connection closes too."""
        self._store: Any = place.history
        self._notes = Notes()
        self._link: Link | None = None
        self._not_before = 0.0
        self._by = ""
        self.after_fork()

    def take(self, records: list[Record]) -> None:
        for record in records:
            code = record[0]
            if code == GRANTED:
                _, tenure, started, now, queued = record[:5]
                waited = round(now - started, 4) if queued else None
                self._note("granted", now, tenure.name, tenure.fence, waited=waited)
            elif code == ENDED:
                _, tenure, now, how = record[:4]
                self._note(how, now, tenure.name, tenure.fence, held=now - tenure.since)
            elif code == LOST:
                _, tenure, now, reason = record[:4]
                self._note("lost", now, tenure.name, tenure.fence, reason=reason.value)
            elif code == EXPIRED:
                self._note("expired", self._place.clock(), record[1].name, None)
            elif code == FORCED:
                self._note("forced", self._place.clock(), record[2], None)
            elif code == FAILED:
                name, now, error = record[2], record[5], record[8]
                kind = {"LOCK_TIMEOUT": "timed_out", "DEADLOCK": "deadlock"}.get(error or "")
                if kind is not None:
                    self._note(kind, now, name, None)

    def _note(self, kind: str, now: float, name: str, fence: int | None, **more: Any) -> None:
        self._notes.note(kind, self._place.client.server_time(now), name, fence, self._by, **more)

    def refresh(self) -> None:
        self._write()
        if self._closed():
            self.end()

    def _write(self) -> None:
        events, counts = self._notes.take()
        if not events and not counts:
            return
        now = self._place.clock()
        if now < self._not_before:
            return
        steps = [
            step for at in range(0, len(events) or 1, EVENTS_IN_A_WRITE) for step in self._steps(events, counts, at)
        ]
        try:
            if self._link is None:
                self._link = self._place.open(PATIENCE)
            self._link.call_all([step.packed(b"") for step in steps], PATIENCE)
        except (LinkDown, ServerSaid, OSError):
            self._not_before = now + BACK_OFF
            self.end()

    def _steps(self, events: list[Event], counts: Counts, at: int) -> list[Any]:
        steps: list[Any] = self._store.add_steps(events[at : at + EVENTS_IN_A_WRITE], counts if at == 0 else {})
        return steps

    def dropped(self, count: int) -> None: ...

    def end(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def after_fork(self) -> None:
        if self._link is not None:
            self._link.abandon()
            self._link = None
        self._notes = Notes()
        self._by = f"{socket.gethostname()}:{os.getpid()}"
