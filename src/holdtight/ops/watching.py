"""Locks that every scrape inspects, whichever process holds them."""

import weakref
from collections.abc import Iterable
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from holdtight.base.values import LockInfo
from holdtight.clients.client import BaseLocks
from holdtight.errors import LockError, Unavailable
from holdtight.sync.locks import Locks

__all__ = ["watch_in"]

_GAUGES = {
    "redis_lock_holders": "Holders of the lock.",
    "redis_lock_queue_length": "Callers that wait for the lock, of all processes.",
    "redis_lock_ttl_seconds": "Time until the lock is free if nobody renews it.",
    "redis_lock_reentries": "Times that the holders in this process have entered it.",
}


class _Watch(Collector):
    def __init__(self) -> None:
        self.watched: dict[str, Locks] = {}

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        gauges = {name: GaugeMetricFamily(name, says, labels=["lock"]) for name, says in _GAUGES.items()}
        about = GaugeMetricFamily(
            "redis_lock_holder_info", "1 for each holder.", labels=["lock", "host", "pid", "label"]
        )
        silent: set[Locks] = set()
        for name, locks in list(self.watched.items()):
            try:
                info = None if locks in silent else locks.inspect(name)
            except Exception as error:
                # One name's key may hold another program's value, or the user may lack the right to it. All names are
                # concerned if the server does not answer or refuses the login, the client is closed, or a credentials
                # callable raises.
                of_all = isinstance(error, Unavailable) or not isinstance(error, LockError)
                if of_all or locks.place.healthy is False:
                    silent.add(locks)
                continue
            if info is not None:
                for family, value in zip(gauges.values(), _values(info), strict=True):
                    family.add_metric([name], value)
                for holder in info.holders:
                    about.add_metric([name, holder.host or "", str(holder.pid or ""), holder.label or ""], 1)
        return [*gauges.values(), about]


def _values(info: LockInfo) -> tuple[float, float, float, float]:
    left = max((holder.expires_in or 0.0 for holder in info.holders), default=0.0)
    entered = sum(holder.entered or 0 for holder in info.holders)
    return info.holding, info.waiting, left, entered


_watches: "weakref.WeakKeyDictionary[CollectorRegistry, _Watch]" = weakref.WeakKeyDictionary()


def watch_in(registry: CollectorRegistry | None, locks: BaseLocks[Any], names: tuple[str, ...], most: int) -> None:
    place = REGISTRY if registry is None else registry
    watch = _watches.get(place)
    count = len({*names, *(() if watch is None else watch.watched)})
    if count > most:
        raise ValueError(f"a registry watches at most {most} names, because every scrape asks for each, not {count}")
    if watch is None:
        watch = _watches[place] = _Watch()
        place.register(watch)
    watch.watched.update(dict.fromkeys(names, _blocking(locks)))


def _blocking(locks: BaseLocks[Any]) -> Locks:
    """The client itself, or a blocking one with its settings: a scrape may run in any thread, also in a loop's."""
    if isinstance(locks, Locks):
        return locks
    made = Locks.__new__(Locks)
    made.unpickled = True  # no warning if it is dropped: no code can close it
    made._open(locks.settings)  # pyright: ignore[reportPrivateUsage]
    return made
