"""The subject with Prometheus metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from bench.variants.holdtight import Holdtight
from holdtight import metrics


class Counted(Holdtight):
    PACKAGES = ("holdtight", "hiredis", "prometheus-client")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        metrics.install(self._locks, registry=CollectorRegistry())


VARIANT = Counted
