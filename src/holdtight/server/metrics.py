"""The service's own metrics, in the text format of Prometheus."""

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["Metrics"]

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    def __init__(self, service: "Service") -> None:
        self._service = service
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, list[float]] = {}

    def count(self, route: str, status: int, took: float) -> None:
        """A status of 0: the client hung up."""
        self._requests[route, status] += 1
        found = self._seconds.get(route)
        if found is None:
            found = self._seconds[route] = [0.0] * (len(BOUNDS) + 2)
        found[-1] += took
        found[bisect_left(BOUNDS, took)] += 1

    def text(self) -> bytes:
        service = self._service
        lines = ["# TYPE holdtight_http_requests_total counter"]
        for (route, status), number in sorted(self._requests.items()):
            lines.append(f'holdtight_http_requests_total{{route="{route}",status="{status}"}} {number}')
        lines.append("# TYPE holdtight_http_request_seconds histogram")
        for route, found in sorted(self._seconds.items()):
            seen = 0.0
            for at, bound in enumerate(BOUNDS):
                seen += found[at]
                lines.append(f'holdtight_http_request_seconds_bucket{{route="{route}",le="{bound:g}"}} {seen:.0f}')
            seen += found[len(BOUNDS)]
            lines.append(f'holdtight_http_request_seconds_bucket{{route="{route}",le="+Inf"}} {seen:.0f}')
            lines.append(f'holdtight_http_request_seconds_sum{{route="{route}"}} {found[-1]:.6f}')
            lines.append(f'holdtight_http_request_seconds_count{{route="{route}"}} {seen:.0f}')
        for name, value in (
            ("holdtight_waiting_requests", float(service.waits.total())),
            ("holdtight_streams", float(service.streams.total())),
            ("holdtight_survey_seconds", service.survey.took),
        ):
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        return ("\n".join(lines) + "\n").encode() + _of_the_library()


def _of_the_library() -> bytes:
    """What programs of this process count with `holdtight.metrics`, if prometheus_client is there."""
    try:
        from prometheus_client import REGISTRY, generate_latest
    except ModuleNotFoundError:
        return b""
    return bytes(generate_latest(REGISTRY))
