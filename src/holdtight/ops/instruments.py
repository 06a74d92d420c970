"""The instruments: names, types, labels and buckets, the same for Prometheus and OpenTelemetry."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

__all__ = ["INSTRUMENTS", "Instrument", "Library", "Use"]

_LOCK = ("lock", "kind")
_WAITS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_HOLDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
_MARGINS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


class Instrument(NamedTuple):
    name: str
    """As Prometheus shows it."""
    type: str
    """counter, gauge or histogram."""
    says: str
    labels: tuple[str, ...] = _LOCK
    buckets: tuple[float, ...] = ()
    mode: str = "all"
    """How Prometheus combines the gauges of several processes."""


INSTRUMENTS = (
    Instrument("redis_lock_acquire_success_total", "counter", "Leases given."),
    Instrument(
        "redis_lock_acquire_failure_total", "counter", "Acquisitions that ended without a lease.", (*_LOCK, "reason")
    ),
    Instrument(
        "redis_lock_acquire_wait_seconds",
        "histogram",
        "Time from asking for a lock to the lease or the failure.",
        (*_LOCK, "outcome"),
        _WAITS,
    ),
    Instrument(
        "redis_lock_hold_duration_seconds",
        "histogram",
        "Time from the grant until the lease was released, lost, detached or downgraded.",
        buckets=_HOLDS,
    ),
    Instrument("redis_lock_held", "gauge", "Leases in hand.", mode="livesum"),
    Instrument("redis_lock_waiters", "gauge", "Callers that wait in line.", mode="livesum"),
    Instrument(
        "redis_lock_oldest_hold_seconds",
        "gauge",
        "Age of the oldest lease in hand, 0 if there is none.",
        mode="livemax",
    ),
    Instrument("redis_lock_renewals_total", "counter", "Renewals of leases.", (*_LOCK, "result")),
    Instrument(
        "redis_lock_renew_margin_ratio",
        "histogram",
        "Time left when a lease was renewed, as a share of its ttl: about 2/3 if all is well.",
        buckets=_MARGINS,
    ),
    Instrument("redis_lock_lost_total", "counter", "Leases that were lost.", (*_LOCK, "reason")),
    Instrument("redis_lock_expired_total", "counter", "Grants whose previous holder never released."),
    Instrument("redis_lock_release_failure_total", "counter", "Releases that did not reach the server."),
    Instrument("redis_lock_forced_release_total", "counter", "Locks that an operator took from their holder."),
    Instrument("redis_lock_degraded_total", "counter", "Leases given without the server.", (*_LOCK, "how")),
    Instrument(
        "redis_node_health", "gauge", "1 if the last connection to the server could be made.", ("node",), mode="livemin"
    ),
    Instrument("redis_lock_metrics_dropped_total", "counter", "Records that were dropped and not counted.", ()),
)

Use = Callable[[float], object]
"""Adds to a counter, sets a gauge, or observes for a histogram; bound to its labels."""


class Library(Protocol):
    """A library that keeps instruments."""

    def bind(self, name: str, labels: tuple[str, ...]) -> Use:
        """The instrument of this name with these values of its labels."""
        ...
