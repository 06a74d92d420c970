"""Metrics of locks, for Prometheus and OpenTelemetry. See docs/operations.md.

Callers only leave a record; a thread of its own counts within half a second, on a scrape, and at exit. Needs an
extra: `prometheus` or `otel`.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from holdtight.base.names import check_name
from holdtight.base.refusals import missing_extra
from holdtight.clients.client import BaseLocks
from holdtight.ops.recorder import check_client, flush, recorder_of
from holdtight.ops.tally import Book, Tally

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from prometheus_client import CollectorRegistry

__all__ = ["flush", "install", "install_otel", "watch"]

MOST_WATCHED = 100


def install(
    locks: BaseLocks[Any],
    *,
    registry: "CollectorRegistry | None" = None,
    names: Collection[str] = (),
    label_of: Callable[[str], str | None] | None = None,
) -> None:
    """Counts what happens to the locks of this client, `Locks` or `AsyncLocks`, in a registry of prometheus_client (by
    default, the default one). Clients may share a registry; installing twice counts once.

    The label `lock` is the template of the job, else the pattern of the profile that the name matches, else the name
    if it is one of `names`, else what `label_of(name)` returns, else `other`. At most 100 values are told apart.

    Raises ModuleNotFoundError without the extra `prometheus`, TypeError for a wrong argument.

    Example:
        >>> from holdtight import metrics
        >>> from prometheus_client import CollectorRegistry
        >>> registry = CollectorRegistry()
        >>> metrics.install(locks, registry=registry, names=["nightly"])
        >>> with locks.lock("nightly"):
        ...     pass
        >>> metrics.flush()
        >>> labels = {"lock": "nightly", "kind": "exclusive"}
        >>> registry.get_sample_value("redis_lock_hold_duration_seconds_count", labels)
        1.0
    """
    _check(locks, names, label_of)
    try:
        from holdtight.ops.prometheus import book_of
    except ModuleNotFoundError as error:
        raise missing_extra("prometheus", error) from error
    _count(locks, book_of(registry), names, label_of)


def install_otel(
    locks: BaseLocks[Any],
    *,
    meter_provider: "MeterProvider | None" = None,
    names: Collection[str] = (),
    label_of: Callable[[str], str | None] | None = None,
) -> None:
    """As `install`, for the instruments of an OpenTelemetry `meter_provider`, by default the global one. The names have
    dots: `redis.lock.acquire.wait`. Translated to Prometheus they are those that `install` makes. `names` and
    `label_of` are those of `install`.

    Raises ModuleNotFoundError without the extra `otel`, TypeError for a wrong argument.

    Example:
        >>> from holdtight import metrics
        >>> metrics.install_otel(locks, names=["nightly"])
    """
    _check(locks, names, label_of)
    try:
        from holdtight.ops.otel import book_of
    except ModuleNotFoundError as error:
        raise missing_extra("otel", error) from error
    _count(locks, book_of(meter_provider), names, label_of)


def watch(locks: BaseLocks[Any], *names: str, registry: "CollectorRegistry | None" = None) -> None:
    """Shows with every scrape who holds the locks `names`, at most 100 in a registry, whatever process that is:
    `redis_lock_holders`, `redis_lock_queue_length`, `redis_lock_ttl_seconds`, `redis_lock_reentries` and
    `redis_lock_holder_info`. The names are the values of the label `lock`. A scrape asks the server for each of
    them; if it does not answer, nothing is shown. The `registry` is that of `install`.

    Raises ModuleNotFoundError without the extra `prometheus`, TypeError or ValueError for a wrong argument.

    Example:
        >>> from holdtight import metrics
        >>> from prometheus_client import CollectorRegistry
        >>> registry = CollectorRegistry()
        >>> metrics.watch(locks, "nightly", registry=registry)
    """
    _check(locks, names, None)
    if not names:
        raise ValueError(f"watch takes 1 to {MOST_WATCHED} names, not 0")
    for name in names:
        check_name(name)
    try:
        from holdtight.ops.watching import watch_in
    except ModuleNotFoundError as error:
        raise missing_extra("prometheus", error) from error
    watch_in(registry, locks, names, MOST_WATCHED)


def _check(locks: object, names: object, label_of: object) -> None:
    check_client(locks)
    if isinstance(names, str) or not isinstance(names, Collection):
        raise TypeError(f"names must be several texts, not {type(names).__name__}")
    for name in names:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(name, str):
            raise TypeError(f"a name must be a text, not {type(name).__name__}")  # pyright: ignore[reportUnknownArgumentType]
    if label_of is not None and not callable(label_of):
        raise TypeError(f"label_of must be callable, not {type(label_of).__name__}")


def _count(
    locks: BaseLocks[Any], book: Book, names: Collection[str], label_of: Callable[[str], str | None] | None
) -> None:
    recorder = recorder_of(locks.events)
    for sink in recorder.sinks:
        if isinstance(sink, Tally) and sink.book is book:
            sink.choose(names, label_of)
            return
    recorder.sinks.append(Tally(book, locks.events, locks.place, names, label_of))


if __name__ == "__main__":
    from holdtight.ops.deploy import main

    main()
