"""Prometheus: the instruments as objects of prometheus_client."""

import weakref
from collections.abc import Iterable
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.registry import Collector

from holdtight.ops.instruments import INSTRUMENTS, Instrument, Use
from holdtight.ops.recorder import flush
from holdtight.ops.tally import Book

__all__ = ["book_of"]


class _Flush(Collector):
    """Registered before the instruments, so that a scrape first counts the pending records."""

    def collect(self) -> Iterable[Any]:
        flush()
        return ()

    def describe(self) -> Iterable[Any]:
        return ()


class _Prometheus:
    def __init__(self, registry: CollectorRegistry) -> None:
        registry.register(_Flush())
        self._instruments = {each.name: _made(each, registry) for each in INSTRUMENTS}

    def bind(self, name: str, labels: tuple[str, ...]) -> Use:
        instrument = self._instruments[name]
        one = instrument.labels(*labels) if labels else instrument
        use: Use = one.inc if isinstance(one, Counter) else one.set if isinstance(one, Gauge) else one.observe
        return use


def _made(of: Instrument, registry: CollectorRegistry) -> Any:
    if of.type == "counter":
        return Counter(of.name, of.says, of.labels, registry=registry)
    if of.type == "gauge":
        mode: Any = of.mode
        return Gauge(of.name, of.says, of.labels, registry=registry, multiprocess_mode=mode)
    return Histogram(of.name, of.says, of.labels, registry=registry, buckets=of.buckets)


_books: "weakref.WeakKeyDictionary[CollectorRegistry, Book]" = weakref.WeakKeyDictionary()


def book_of(registry: CollectorRegistry | None) -> Book:
    """The Book of a registry: one for each."""
    place = REGISTRY if registry is None else registry
    found = _books.get(place)
    if found is None:
        found = _books[place] = Book(_Prometheus(place))
    return found
