"""OpenTelemetry: the instruments as those of a meter. Uses the API package only; without an SDK nothing is counted.

Names have dots, no `_total` and no `_seconds`: an exporter for Prometheus makes them those of ops/instruments.py."""

import threading
import weakref
from collections.abc import Iterable
from typing import Any

from opentelemetry.metrics import MeterProvider, Observation, get_meter_provider

from holdtight.ops.instruments import INSTRUMENTS, Instrument, Use
from holdtight.ops.recorder import flush
from holdtight.ops.tally import Book

__all__ = ["book_of"]


class _OpenTelemetry:
    def __init__(self, provider: MeterProvider) -> None:
        self._meter = provider.get_meter("holdtight")
        self._gauges: dict[str, dict[tuple[str, ...], float]] = {}
        self._of = {each.name: each for each in INSTRUMENTS}
        self._instruments = {each.name: self._made(each) for each in INSTRUMENTS}

    def _made(self, of: Instrument) -> Any:
        unit = "s" if of.name.endswith("_seconds") else ""
        name = of.name.removesuffix("_total").removesuffix("_seconds").replace("_", ".")
        if of.type == "counter":
            return self._meter.create_counter(name, unit, of.says)
        if of.type == "histogram":
            return self._meter.create_histogram(
                name, unit, of.says, explicit_bucket_boundaries_advisory=list(of.buckets)
            )
        values = self._gauges[of.name] = {}

        def observe(options: object) -> Iterable[Observation]:
            if not threading.main_thread().is_alive():
                flush()  # the last collection, of a provider that shuts down at exit, perhaps before we count
            for labels, value in list(values.items()):
                yield Observation(value, dict(zip(of.labels, labels, strict=True)))

        return self._meter.create_observable_gauge(name, [observe], unit, of.says)

    def bind(self, name: str, labels: tuple[str, ...]) -> Use:
        instrument, of = self._instruments[name], self._of[name]
        attributes = dict(zip(of.labels, labels, strict=True))
        if of.type == "counter":
            return lambda value: instrument.add(value, attributes)
        if of.type == "histogram":
            return lambda value: instrument.record(value, attributes)
        values = self._gauges[name]
        return lambda value: values.__setitem__(labels, value)


_books: "weakref.WeakKeyDictionary[MeterProvider, Book]" = weakref.WeakKeyDictionary()


def book_of(provider: MeterProvider | None) -> Book:
    """The Book of a provider: one for each."""
    place = get_meter_provider() if provider is None else provider
    found = _books.get(place)
    if found is None:
        found = _books[place] = Book(_OpenTelemetry(place))
    return found
