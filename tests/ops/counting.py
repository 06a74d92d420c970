"""What a registry shows after everything that has happened is counted."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from holdtight import Locks, metrics

__all__ = ["Counts", "counted_alone", "use"]


class Counts:
    """Reads the series of a registry; `lock` and `kind` are what tests use unless they say otherwise."""

    def __init__(self, registry: CollectorRegistry, lock: str = "other", kind: str = "exclusive") -> None:
        self.registry = registry
        self._usual = {"lock": lock, "kind": kind}

    def __call__(self, name: str, **labels: str) -> float:
        """The value of `redis_lock_<name>`; -1 if there is no such series."""
        metrics.flush()
        found = self.registry.get_sample_value(f"redis_lock_{name}", self._usual | labels)
        return -1.0 if found is None else found

    def failures(self, **labels: str) -> dict[str, float]:
        """By reason."""
        return self._by("reason", "acquire_failure_total", **labels)

    def losses(self) -> dict[str, float]:
        return self._by("reason", "lost_total")

    def _by(self, label: str, name: str, **labels: str) -> dict[str, float]:
        metrics.flush()
        wanted = self._usual | labels
        return {
            sample.labels[label]: sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == f"redis_lock_{name}" and wanted.items() <= sample.labels.items()
        }


def use(locks: Locks, *names: str) -> None:
    for name in names:
        with locks.lock(name):
            pass


def counted_alone(registry: CollectorRegistry, name: str, lock: str = "other") -> float:
    """What the thread of the metrics has counted by itself: reading a whole registry would count first."""
    for metric in registry.restricted_registry([name]).collect():
        for sample in metric.samples:
            if (sample.name, sample.labels["lock"]) == (name, lock):
                return sample.value
    return -1.0
