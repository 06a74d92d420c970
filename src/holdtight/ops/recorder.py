"""The recorder: callers, signal handlers and the keeper leave records, and one thread counts them later.

prometheus_client and the OpenTelemetry SDK take plain locks. A signal handler that counted could wait for the thread
that it interrupts, and a child that was forked while a thread counted would wait for ever. So a record
(base/records.py) is only appended to a deque, and the thread `holdtight-meter` hands the records to the sinks: metrics
and traces.

Each time it wakes up, the meter counts what waits at that moment, a slice at a time. It spreads the slices over the
interval, so that callers get the interpreter and the processor between them. Few records need few slices, which are
short. Many need longer ones: a caller that takes locks without pause meets one slice among some hundred pairs. If the
meter is behind, it counts without pauses.

Invariants:
- sinks run in one thread at a time, in the order of the records;
- a fork waits for the slice that is being counted; the child starts without records, holders and waiters;
- at most MOST records wait: more are dropped, and their number is known.
"""

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from holdtight.base.callbacks import report
from holdtight.base.event_bus import Events
from holdtight.base.process import start_thread
from holdtight.clients.client import BaseLocks

__all__ = ["MOST", "Recorder", "Sink", "check_client", "count_first_at_exit", "flush", "recorder_of"]

MOST = 65_536
INTERVAL = 0.25
SLICE = 32
"""The fewest records of a slice: counting them takes some 50 µs."""
SLICES = 15
"""The most slices of a drain. A caller that takes locks without pause makes some 19,000 pairs a second, and one in
three hundred of them meets one of the 60 slices."""
PAUSE = 0.004
"""Seconds between two slices. So a drain is over within the interval, and the spin wait of callers on the same
processor (stores/redis/spin.py) does not take the meter's waking for a busy machine."""
BEHIND = MOST // 4
"""If more records wait, the meter makes no pause."""
FORK_PATIENCE = 5.0
"""Seconds for which a fork waits for the slice: a sink that hangs must not block it for ever."""

Record = tuple[Any, ...]


class Sink(Protocol):
    def take(self, records: list[Record]) -> None: ...

    def refresh(self) -> None:
        """Called after the records have been taken, and a few times each second."""
        ...

    def dropped(self, count: int) -> None:
        """`count` records have been dropped since the last call."""
        ...

    def end(self) -> None:
        """The client is gone, and all of its records have been taken."""
        ...

    def after_fork(self) -> None:
        """In the child: forgets the holders and waiters of the parent. Must take no lock."""
        ...


class Recorder:
    """The records of one client. The client's `events` refers to the recorder, and not the other way round. So a
    dropped client is collected, and its records are still counted."""

    def __init__(self, events: Events) -> None:
        self.events = weakref.ref(events)
        self.waiting: deque[Record] = deque()
        self.sinks: list[Sink] = []
        self.lost = 0
        """Records that were dropped since the sinks were told. `+=` needs no lock here: Python switches
        threads only at calls and at the end of loops."""
        self.prepare_with(None)

    def prepare_with(self, prepare: Callable[[Record], Record] | None, codes: frozenset[int] = frozenset()) -> None:
        """Creates `put`, which every caller calls. For traces, `prepare` adds to records with these codes what only the
        caller knows. A forked child continues to call `put_first` first."""
        waiting, append = self.waiting, self.waiting.append

        def put(record: Record) -> None:
            if len(waiting) < MOST:
                append(record)
            else:
                self.lost += 1

        def put_prepared(record: Record) -> None:
            put(prepare(record) if prepare is not None and record[0] in codes else record)

        self.put = put if prepare is None else put_prepared
        events = self.events()
        if events is not None and events.record != self.put_first:
            self._record_with(self.put)

    def _record_with(self, put: Callable[[Record], None]) -> None:
        events = self.events()
        if events is not None:
            events.record = put
            events.refresh()

    def put_first(self, record: Record) -> None:
        """The first record in a forked child, which has no thread yet."""
        self._record_with(self.put)
        self.put(record)
        meter.start()

    def count_some(self, most: int) -> bool:
        """Hands at most so many records to the sinks. Returns whether more are waiting."""
        taken: list[Record] = []
        while self.waiting and len(taken) < most:
            taken.append(self.waiting.popleft())
        if taken:
            self._tell("take", taken)
        if self.lost:
            count, self.lost = self.lost, 0
            self._tell("dropped", count)
        return bool(self.waiting)

    def refresh(self) -> None:
        self._tell("refresh")

    def end(self) -> None:
        self._tell("end")
        self.sinks.clear()

    def _tell(self, what: str, *args: object) -> None:
        for sink in self.sinks:
            try:
                getattr(sink, what)(*args)
            except Exception as error:  # a metrics library failed: the other sinks still count
                report("a metrics or tracing library failed: %r", error, sink)

    def after_fork(self) -> None:
        self.waiting.clear()
        self.lost = 0
        events = self.events()
        if events is not None:
            events.waiting.clear()
            events.record = self.put_first
        for sink in self.sinks:
            sink.after_fork()


class _Meter:
    """The thread that counts, and the lock under which all counting happens."""

    def __init__(self) -> None:
        self.recorders: dict[Recorder, None] = {}
        self._counting = threading.RLock()
        self._counter: int | None = None
        """The thread that counts now: a signal handler that interrupts it must not count as well."""
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        with self._starting:
            if self._thread is None:
                try:
                    self._thread = start_thread(self._run, "holdtight-meter")
                except RuntimeError:
                    pass  # no more threads, or the interpreter ends: flush() counts

    def _run(self) -> None:
        rest = INTERVAL
        while True:
            time.sleep(rest)
            began = time.monotonic()
            try:
                self.count(until=began + INTERVAL)
            except Exception as error:
                report("counting records failed; the meter continues", error)
            rest = max(PAUSE, INTERVAL - (time.monotonic() - began))

    def count(self, until: float = 0.0) -> None:
        """Counts all records that wait now, with pauses until that time. What is recorded meanwhile may have to wait
        for the next call: threads that take locks without pause would keep this one busy for ever."""
        for recorder in list(self.recorders):
            left = len(recorder.waiting)
            size = max(SLICE, left // SLICES)
            while self._locked(partial(recorder.count_some, size)):
                left -= size
                if left <= 0:
                    break
                if len(recorder.waiting) < BEHIND and time.monotonic() < until:
                    time.sleep(PAUSE)
            self._locked(recorder.refresh)
            if recorder.events() is None and not recorder.waiting:
                self._locked(recorder.end)
                self.recorders.pop(recorder, None)

    def _locked(self, do: Callable[[], bool | None]) -> bool | None:
        if self._counter == threading.get_ident():
            return False
        with self._counting:
            self._counter = threading.get_ident()
            try:
                return do()
            finally:
                self._counter = None

    def before_fork(self) -> None:
        self._fork_waits = self._counting.acquire(timeout=FORK_PATIENCE)

    def after_fork_in_parent(self) -> None:
        if self._fork_waits:
            self._counting.release()

    def after_fork_in_child(self) -> None:
        self._counting, self._starting = threading.RLock(), threading.RLock()
        self._counter = self._thread = None
        for recorder in self.recorders:
            recorder.after_fork()


meter = _Meter()
_known: "weakref.WeakKeyDictionary[Events, Recorder]" = weakref.WeakKeyDictionary()
os.register_at_fork(
    before=meter.before_fork,
    after_in_parent=meter.after_fork_in_parent,
    after_in_child=meter.after_fork_in_child,
)
atexit.register(lambda: meter.count())


def count_first_at_exit() -> None:
    """At exit, the records are counted before anything runs that has been registered so far: Python calls last what was
    registered first. A tracer provider of the OpenTelemetry SDK registers its shutdown when it is made, and drops every
    span after that."""
    atexit.unregister(meter.count)
    atexit.register(meter.count)


def check_client(locks: object) -> None:
    if not isinstance(locks, BaseLocks):
        raise TypeError(f"locks must be a Locks or AsyncLocks, not {type(locks).__name__}")


def recorder_of(events: Events) -> Recorder:
    """The recorder of a client, which is made with its first sink."""
    found = _known.get(events)
    if found is None:
        found = _known[events] = Recorder(events)
        meter.recorders[found] = None
    meter.start()
    return found


def flush() -> None:
    """Hands over what has happened so far at once, instead of within half a second: to metrics, traces and history
    alike. The same in `holdtight.metrics`, `holdtight.tracing` and `holdtight.history`.

    Example:
        >>> from holdtight import metrics
        >>> metrics.flush()
    """
    meter.count()
