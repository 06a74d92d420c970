"""Traces of locks, with OpenTelemetry. See docs/operations.md. Needs the extra `otel`."""

from typing import TYPE_CHECKING, Any

from holdtight.base.refusals import missing_extra
from holdtight.clients.client import BaseLocks
from holdtight.ops.recorder import check_client, flush, recorder_of

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["flush", "install"]


def install(locks: BaseLocks[Any], *, tracer_provider: "TracerProvider | None" = None, always: bool = False) -> None:
    """Makes a span `lock.acquire` for every acquisition of this client, `Locks` or `AsyncLocks`, and a span `lock.hold`
    for every lease, under the span that is current in the caller. A caller without a span that records makes none,
    unless `always` is True. `tracer_provider` is the global one by default; of several calls the last one counts.

    Spans are made within half a second, with the times at which things happened. If the program sets up an SDK later,
    acquisitions have spans from within half a second after that.

    Raises ModuleNotFoundError without the extra `otel`, TypeError for a wrong argument.

    Example:
        >>> from holdtight import tracing
        >>> tracing.install(locks, always=True)
    """
    check_client(locks)
    if always.__class__ is not bool:
        raise TypeError(f"always must be True or False, not {always!r}")
    try:
        from holdtight.ops.spans import trace
    except ModuleNotFoundError as error:
        raise missing_extra("otel", error) from error
    trace(recorder_of(locks.events), locks.place.clock, tracer_provider, always)
