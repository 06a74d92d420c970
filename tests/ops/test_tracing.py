"""Spans of acquisitions and holds, with the times and the parents at the time of the event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer

from holdtight import AsyncLocks, LeaseLost, Locks, LockTimeout, NotOwner, Profile, tracing
from tests.support.processes import StartChild
from tests.support.servers import StartServer


class Traced:
    def __init__(self, provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
        self.provider = provider
        self.tracer: Tracer = provider.get_tracer("a test")
        self._exporter = exporter

    def spans(self) -> list[ReadableSpan]:
        """All that have ended, without those of the test."""
        tracing.flush()
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith("lock.")]


@pytest.fixture
def traced() -> Iterator[Traced]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Traced(provider, exporter)
    provider.shutdown()


@pytest.fixture
def locks(traced: Traced) -> Iterator[Locks]:
    with Locks("memory://traced", profiles={"order:*": Profile(ttl=20)}) as made:
        tracing.install(made, tracer_provider=traced.provider)
        yield made


def about(span: ReadableSpan) -> dict[str, Any]:
    return {word.removeprefix("lock."): value for word, value in (span.attributes or {}).items()}


def test_a_lock_under_a_span_is_an_acquisition_and_a_hold(locks: Locks, traced: Traced) -> None:
    with traced.tracer.start_as_current_span("request") as request, locks.lock("order:1") as lease:
        pass
    acquire, hold = traced.spans()
    assert (acquire.name, hold.name) == ("lock.acquire", "lock.hold")
    for span in (acquire, hold):
        assert span.parent is not None
        assert span.parent.span_id == request.get_span_context().span_id
        assert span.start_time is not None
        assert span.end_time is not None
        assert abs(span.start_time - time.time_ns()) < 60 * 10**9
        assert span.start_time <= span.end_time
        seen = about(span)
        assert (seen["name"], seen["kind"], seen["template"]) == ("order:1", "exclusive", "order:*")
        assert (seen["owner"], seen["fence"], seen["ttl"]) == (lease.owner[:11], lease.fence, 20)
    assert 0 <= about(acquire)["waited"] < 10
    assert about(acquire)["queued"] is False
    assert about(hold)["ended"] == "released"
    assert acquire.end_time == hold.start_time


def test_without_a_span_that_records_there_is_none_unless_always(locks: Locks, traced: Traced) -> None:
    with locks.lock("x"):
        pass
    assert traced.spans() == []
    tracing.install(locks, tracer_provider=traced.provider, always=True)
    with locks.lock("x"):
        pass
    assert [(span.name, span.parent) for span in traced.spans()] == [("lock.acquire", None), ("lock.hold", None)]


BEFORE_AND_AFTER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from holdtight import Locks, tracing
from holdtight.ops import spans

asked = []
ask = spans.get_current_span
spans.get_current_span = lambda: asked.append(1) or ask()

def pair():
    del asked[:]
    with trace.get_tracer("a test").start_as_current_span("request"), locks.lock("x"):
        pass
    tracing.flush()
    print("asked" if asked else "did not ask")

locks = Locks("memory://")
tracing.install(locks)
pair()
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
tracing.flush()
pair()
print(*(span.name for span in exporter.get_finished_spans()))
"""


def test_callers_are_asked_for_their_span_from_the_moment_that_a_program_sets_up_an_sdk(
    start_child: StartChild,
) -> None:
    child = start_child(BEFORE_AND_AFTER)
    assert child.lines() == ["did not ask", "asked", "request lock.acquire lock.hold"]
    assert child.wait() == 0


SHORT = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from holdtight import Locks, tracing

def made():
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
    return provider

locks = Locks("memory://")
if args == ["given"]:
    tracing.install(locks, tracer_provider=made(), always=True)
elif args == ["global"]:
    trace.set_tracer_provider(made())
    tracing.install(locks, always=True)
else:
    tracing.install(locks, always=True)
    trace.set_tracer_provider(made())
    tracing.flush()  # instead of half a second
with locks.lock("x"):
    pass
"""


@pytest.mark.parametrize("provider", ["given", "global", "made later"])
def test_the_spans_of_a_program_that_ends_at_once_reach_its_exporter(start_child: StartChild, provider: str) -> None:
    """The SDK shuts its provider down at exit: spans must have been made before."""
    child = start_child(SHORT, provider)
    assert child.lines() == ["lock.acquire", "lock.hold"], child.errors
    assert child.wait() == 0
    assert child.errors == ""


def test_a_failure_is_an_error_with_its_code(locks: Locks, traced: Traced) -> None:
    with Locks("memory://traced") as other, other.lock("x"), traced.tracer.start_as_current_span("request"):
        with pytest.raises(LockTimeout):
            locks.lock("x").acquire(wait=0.02)
        assert locks.lock("x").try_acquire() is None
    timeout, busy = traced.spans()
    assert timeout.status.status_code is busy.status.status_code is StatusCode.ERROR
    assert about(timeout)["error.type"] == "LOCK_TIMEOUT"
    assert about(timeout)["queued"] is True
    assert about(timeout)["waited"] >= 0.02
    assert about(busy)["error.type"] == "busy"


def test_a_lost_hold_says_why(locks: Locks, traced: Traced) -> None:
    with traced.tracer.start_as_current_span("request"):
        lease = locks.lock("x", ttl=0.2, renew=False).acquire()
        assert lease.wait_lost(10)
        with pytest.raises(LeaseLost):
            lease.release()
        text = locks.lock("y").acquire().detach()
        locks.adopt(text).release()
    holds = [span for span in traced.spans() if span.name == "lock.hold"]
    assert [about(span)["ended"] for span in holds] == ["lost", "detached", "released"]
    (event,) = holds[0].events
    assert (event.name, dict(event.attributes or {})) == ("lock.lost", {"lock.reason": "expired"})


def test_a_downgrade_ends_the_hold_of_the_writer_and_begins_that_of_the_reader(locks: Locks, traced: Traced) -> None:
    with traced.tracer.start_as_current_span("request") as request:
        writing = locks.rwlock("book").write().acquire()
        reading = writing.downgrade()
    reading.release()
    acquire, first, second = traced.spans()
    assert (acquire.name, first.name, second.name) == ("lock.acquire", "lock.hold", "lock.hold")
    assert [(about(span)["kind"], about(span)["ended"]) for span in (first, second)] == [
        ("exclusive", "downgraded"),
        ("shared", "released"),
    ]
    assert (about(first)["fence"], about(second)["fence"]) == (writing.fence, reading.fence)
    assert first.end_time == second.start_time
    assert {span.parent.span_id for span in (first, second) if span.parent} == {request.get_span_context().span_id}


def test_a_renewal_that_fails_is_an_event_of_the_hold(start_server: StartServer, traced: Traced) -> None:
    server = start_server()
    with Locks(server.url) as locks:
        tracing.install(locks, tracer_provider=traced.provider, always=True)
        lease = locks.lock("x", ttl=1.5).acquire()
        server.stop()
        assert lease.wait_lost(20)
        with pytest.raises(LeaseLost):
            lease.check()
        holds = [span for span in traced.spans() if span.name == "lock.hold"]
        with pytest.raises(NotOwner):
            lease.release()
    (hold,) = holds
    assert about(hold)["ended"] == "lost"
    *failed, lost = hold.events
    assert {event.name for event in failed} == {"lock.renewal_failed"}
    assert all((event.attributes or {})["lock.cause"] for event in failed)
    assert (lost.name, dict(lost.attributes or {})) == ("lock.lost", {"lock.reason": "unreachable"})


def test_every_task_has_its_own_parent(traced: Traced) -> None:
    async def main() -> dict[str, int]:
        async with AsyncLocks("memory://traced-tasks") as locks:
            tracing.install(locks, tracer_provider=traced.provider)

            async def run(name: str) -> int:
                with traced.tracer.start_as_current_span(name) as request:
                    async with locks.lock("one for all"):
                        await asyncio.sleep(0.005)
                    return request.get_span_context().span_id

            names = [f"n{number}" for number in range(5)]
            return dict(zip(names, await asyncio.gather(*map(run, names)), strict=True))

    parents = asyncio.run(main())
    spans = traced.spans()
    for name in ("lock.acquire", "lock.hold"):
        found = {span.parent.span_id for span in spans if span.name == name and span.parent is not None}
        assert found == set(parents.values())
    assert sum(about(span).get("queued", False) for span in spans) == 4


@pytest.mark.parametrize(("given", "wrong"), [({"locks": None}, "locks must be"), ({"always": 1}, "always must be")])
def test_wrong_arguments_are_named(locks: Locks, given: dict[str, Any], wrong: str) -> None:
    with pytest.raises(TypeError, match=wrong):
        tracing.install(**{"locks": locks} | given)
