"""The subject with OpenTelemetry's metrics and traces installed, and no SDK."""

from __future__ import annotations

from bench.variants.holdtight import Holdtight
from holdtight import metrics, tracing


class Traced(Holdtight):
    PACKAGES = ("holdtight", "hiredis", "opentelemetry-api")

    def __init__(self, url: str) -> None:
        super().__init__(url)
        metrics.install_otel(self._locks)
        tracing.install(self._locks)


VARIANT = Traced
