"""Counts records: what happened to the locks of one client, for the instruments of one library."""

import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any, cast

from holdtight.base.callbacks import report
from holdtight.base.event_bus import Events
from holdtight.base.records import (
    DEGRADED,
    ENDED,
    EXPIRED,
    FAILED,
    FORCED,
    GRANTED,
    LOST,
    RELEASE_FAILED,
    RENEWAL_FAILED,
    RENEWED,
)
from holdtight.base.values import Kind
from holdtight.grants.tenure import Tenure, Terms
from holdtight.ops.instruments import Library, Use
from holdtight.ops.recorder import Record
from holdtight.stores.boundary import Place

__all__ = ["OTHER", "Book", "Tally"]

OTHER = "other"
MOST_LABELS = 100
"""More values of the label `lock` become `other`: every value costs some sixty series."""
CACHED_NAMES = 4096
LOOKED_AT = 1000
"""Up to this many held leases are checked each time that the gauges are set; if there are more, less often."""

_WITHOUT_TENURE = frozenset({FAILED, DEGRADED, FORCED})

LabelOf = Callable[[str], str | None]


class Series:
    """The instruments for one value of `lock` and one kind. Those that always apply are bound at once, so that they
    show 0; the others are bound when they are first used."""

    def __init__(self, library: Library, label: str, kind: str) -> None:
        self._library = library
        self._labels = (label, kind)
        self._bound: dict[tuple[str, ...], Use] = {}
        self._acquired = library.bind("redis_lock_acquire_success_total", self._labels)
        self.waited = library.bind("redis_lock_acquire_wait_seconds", (*self._labels, "acquired"))
        self.held_for = library.bind("redis_lock_hold_duration_seconds", self._labels)
        self._gauges = [
            library.bind(name, self._labels)
            for name in ("redis_lock_held", "redis_lock_waiters", "redis_lock_oldest_hold_seconds")
        ]
        self._shown: list[float] = [-1.0, -1.0, -1.0]
        self.new = 0
        """Leases given, in the records that are being taken: the counter gets them all at once."""
        self.held: dict[Tenure, None] = {}
        """The leases in hand, oldest first."""
        self._look_in = 0

    def use(self, name: str, value: float, *labels: str) -> None:
        key = (name, *labels)
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = self._library.bind(name, (*self._labels, *labels))
        bound(value)

    def settle(self) -> None:
        """After the records have been taken."""
        count, self.new = self.new, 0
        self._acquired(count)

    def show(self, waiters: int) -> None:
        self._drop_dead()
        first = next(iter(self.held), None)
        oldest = 0.0 if first is None else max(0.0, first.place.clock() - first.since)
        for at, value in enumerate((len(self.held), waiters, oldest)):
            if value != self._shown[at]:
                self._shown[at] = value
                self._gauges[at](value)

    def after_fork(self) -> None:
        """The child holds nothing. It shows all gauges again: Prometheus keeps a file for each process."""
        self.held.clear()
        self.new = 0
        self._shown = [-1.0, -1.0, -1.0]

    def _drop_dead(self) -> None:
        """Removes leases that were dropped without a release, or whose record of the end was dropped."""
        self._look_in -= 1
        if self._look_in <= 0:
            self._look_in = len(self.held) // LOOKED_AT
            for tenure in [each for each in self.held if not each.alive]:
                del self.held[tenure]


class Book:
    """All series of one library. Clients share it."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._series: dict[tuple[str, str], Series] = {}
        self._labels: set[str] = {OTHER}
        self._nodes: dict[str, tuple[Use, list[float]]] = {}
        self.tallies: list[Tally] = []
        self.dropped = library.bind("redis_lock_metrics_dropped_total", ())

    def series(self, label: str, kind: str) -> Series:
        if label not in self._labels:
            if len(self._labels) > MOST_LABELS:
                label = OTHER
            self._labels.add(label)
        found = self._series.get((label, kind))
        if found is None:
            found = self._series[label, kind] = Series(self._library, label, kind)
        return found

    def refresh(self) -> None:
        """Sets the gauges."""
        waiting: dict[Series, int] = {}
        nodes: dict[str, float] = {}
        for tally in self.tallies:
            for series in tally.waiting():
                waiting[series] = waiting.get(series, 0) + 1
            for node, up in tally.nodes():
                nodes[node] = min(float(up), nodes.get(node, 1.0))
        for series in list(self._series.values()):
            series.show(waiting.get(series, 0))
        for node, health in nodes.items():
            use, shown = self._nodes.get(node) or self._nodes.setdefault(
                node, (self._library.bind("redis_node_health", (node,)), [-1.0])
            )
            if shown[0] != health:
                shown[0] = health
                use(health)

    def after_fork(self) -> None:
        for series in self._series.values():
            series.after_fork()
        for _, shown in self._nodes.values():
            shown[0] = -1.0


class Tally:
    """Counts the records of one client in a Book. A sink of the recorder."""

    def __init__(
        self, book: Book, events: Events, place: Place, names: Collection[str], label_of: LabelOf | None
    ) -> None:
        self.book = book
        # Weak, because the place refers to the events: this must not keep a dropped client alive.
        self._place = weakref.ref(place)
        self._places = [weakref.ref(each) for each in cast("list[Place]", getattr(place, "nodes", None) or [place])]
        self._in_line = events.waiting
        self._given: list[Series] = []
        """The series that must settle."""
        self.choose(names, label_of)
        self._count: dict[int, Callable[[Record], None]] = {
            GRANTED: self._granted,
            ENDED: self._ended,
            FAILED: self._failed,
            LOST: self._lost,
            RENEWED: self._renewed,
            RENEWAL_FAILED: lambda record: self._of(record[1]).use("redis_lock_renewals_total", 1, "failed"),
            RELEASE_FAILED: self._release_failed,
            EXPIRED: lambda record: self._of(record[1]).use("redis_lock_expired_total", 1),
            DEGRADED: lambda record: self._find(record[2], record[1]).use("redis_lock_degraded_total", 1, record[3]),
            FORCED: lambda record: self._find(record[2], record[1]).use("redis_lock_forced_release_total", 1),
        }
        book.tallies.append(self)

    def choose(self, names: Collection[str], label_of: LabelOf | None) -> None:
        """Sets what the label `lock` may be for a name without a template."""
        self._names = frozenset(names)
        self._label_of = label_of
        self._by_name = bool(self._names) or label_of is not None
        self._known: dict[tuple[str, str | None, Kind], Series] = {}

    # As a sink.

    def take(self, records: list[Record]) -> None:
        place, count = self._place(), self._count
        try:
            for record in records:
                code = record[0]
                if code not in _WITHOUT_TENURE:
                    # A lease that the server did not give counts as degraded only.
                    tenure: Tenure = record[1]
                    if tenure.stand_in is not None or tenure.terms.place is not place:
                        continue
                count[code](record)
        finally:
            for series in self._given:
                series.settle()
            self._given.clear()

    def refresh(self) -> None:
        self.book.refresh()

    def dropped(self, count: int) -> None:
        self.book.dropped(count)

    def after_fork(self) -> None:
        self.book.after_fork()

    def end(self) -> None:
        self.book.tallies.remove(self)

    def waiting(self) -> list[Series]:
        locks, place = list(self._in_line.values()), self._place()
        return [self._find(lock.name, lock.terms) for lock in locks if lock.terms.place is place]

    def nodes(self) -> Iterator[tuple[str, bool]]:
        """The servers, and whether the last connection to each could be made."""
        for each in self._places:
            place = each()
            healthy = None if place is None else place.healthy
            if place is not None and healthy is not None:
                yield place.display, healthy

    # Records.

    def _granted(self, record: Record) -> None:
        tenure: Tenure = record[1]
        series = self._of(tenure)
        if not series.new:
            self._given.append(series)
        series.new += 1
        series.held[tenure] = None
        series.waited(max(0.0, record[3] - record[2]))

    def _ended(self, record: Record) -> None:
        tenure: Tenure = record[1]
        self._end(tenure, record[2])
        if record[3] == "downgraded":
            self._of(record[4]).held[record[4]] = None

    def _end(self, tenure: Tenure, now: float) -> Series:
        series = self._of(tenure)
        series.held.pop(tenure, None)
        series.held_for(max(0.0, now - tenure.since))
        return series

    def _failed(self, record: Record) -> None:
        _, terms, name, _, started, now, _, reason, *_ = record
        series = self._find(name, terms)
        series.use("redis_lock_acquire_failure_total", 1, reason)
        series.use("redis_lock_acquire_wait_seconds", max(0.0, now - started), "failed")

    def _lost(self, record: Record) -> None:
        self._end(record[1], record[2]).use("redis_lock_lost_total", 1, record[3].value)

    def _renewed(self, record: Record) -> None:
        series = self._of(record[1])
        series.use("redis_lock_renewals_total", 1, "renewed")
        series.use("redis_lock_renew_margin_ratio", max(0.0, record[2]))

    def _release_failed(self, record: Record) -> None:
        series = self._of(record[1])
        series.held.pop(record[1], None)
        series.use("redis_lock_release_failure_total", 1)

    # Labels.

    def _of(self, tenure: Tenure) -> Series:
        terms = tenure.terms
        key = ("", terms.template, terms.kind)  # as a rule the name does not matter
        return self._known.get(key) or self._find(tenure.prepared.name, terms)

    def _find(self, name: str, terms: Terms | None) -> Series:
        template, kind = (None, Kind.MULTI) if terms is None else (terms.template, terms.kind)
        key = (name if template is None and self._by_name else "", template, kind)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= CACHED_NAMES:
                self._known.clear()
            found = self._known[key] = self.book.series(template or self._label(name), kind.value)
        return found

    def _label(self, name: str) -> str:
        if name in self._names:
            return name
        if self._label_of is None:
            return OTHER
        label: Any = None
        try:
            label = self._label_of(name)
        except Exception as error:  # user code
            report("label_of failed for the lock %r", error, name)
        return label if isinstance(label, str) and label else OTHER
