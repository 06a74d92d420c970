"""Traces: a span for each acquisition and each hold, made from the records when they are counted."""

import time
from typing import Any

from opentelemetry import context
from opentelemetry.trace import (
    NoOpTracerProvider,
    ProxyTracerProvider,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer_provider,
)

from holdtight.base.records import ENDED, FAILED, GRANTED, LOST, RELEASE_FAILED, RENEWAL_FAILED
from holdtight.base.values import Kind, owner_text
from holdtight.grants.tenure import Tenure, Terms
from holdtight.ops.recorder import Record, Recorder, count_first_at_exit

__all__ = ["trace"]

SHOWN = 11
"""Characters of an owner, as in the log."""
PREPARED = frozenset({GRANTED, FAILED})
MOST_HELD = 100_000
"""Further leases are not traced until some of these have ended."""


class _Spans:
    """A sink of the recorder. `prepare` runs in the caller, everything else where records are counted."""

    def __init__(self, recorder: Recorder, provider: TracerProvider | None, clock: Any, always: bool) -> None:
        self._recorder = recorder
        self._provider = provider
        self._tracer: Tracer = (provider or get_tracer_provider()).get_tracer("holdtight")
        self._clock = clock
        self._always = always
        self._held: dict[Tenure, tuple[Span, Any]] = {}
        """The span of each lease in hand, and the context that it began in."""
        self._prepares = False
        recorder.prepare_with(None)
        self._prepare_if_it_can_record()

    def _prepare_if_it_can_record(self) -> None:
        """Without an SDK the global provider makes no spans: callers need not ask for theirs. A program may set one up
        at any time."""
        if not self._prepares:
            place = self._provider or get_tracer_provider()
            self._prepares = not isinstance(place, ProxyTracerProvider | NoOpTracerProvider)
            if self._prepares:
                self._recorder.prepare_with(self.prepare, PREPARED)
                count_first_at_exit()

    def prepare(self, record: Record) -> Record:
        """Adds the caller's context to one of PREPARED, if there is to be a span."""
        if self._always or get_current_span().is_recording():
            return (*record, context.get_current())
        return record

    def take(self, records: list[Record]) -> None:
        if not self._prepares:
            return  # no record has asked for a span yet
        self._offset = time.time() - self._clock()
        for record in records:
            code = record[0]
            if code == GRANTED and len(record) == 6:
                self._granted(*record[1:])
            elif code == FAILED and len(record) == 10:
                self._failed(*record[1:])
            elif code == RENEWAL_FAILED and record[1] in self._held:
                span, _ = self._held[record[1]]
                span.add_event("lock.renewal_failed", {"lock.cause": record[3]}, self._at(record[2]))
            elif code == ENDED:
                around = self._ended(record[1], record[2], record[3])
                if record[3] == "downgraded" and around is not None:
                    self._hold(record[4], record[2], around)
            elif code == LOST:
                if record[1] in self._held:
                    span, _ = self._held[record[1]]
                    span.add_event("lock.lost", {"lock.reason": record[3].value}, self._at(record[2]))
                self._ended(record[1], record[2], "lost")
            elif code == RELEASE_FAILED:
                self._ended(record[1], record[2], "released")

    def _at(self, moment: float) -> int:
        return int((moment + self._offset) * 1e9)

    def _start(self, name: str, at: float, around: Any, about: dict[str, Any]) -> Span:
        known = {word: value for word, value in about.items() if value not in (None, "")}
        return self._tracer.start_span(name, around, SpanKind.CLIENT, known, start_time=self._at(at))

    def _granted(self, tenure: Tenure, started: float, now: float, queued: bool, around: Any) -> None:
        if tenure.stand_in is not None:
            return
        acquired = _of_lease(tenure) | {"lock.waited": max(0.0, now - started), "lock.queued": queued}
        self._start("lock.acquire", started, around, acquired).end(self._at(now))
        self._hold(tenure, now, around)

    def _hold(self, tenure: Tenure, now: float, around: Any) -> None:
        if len(self._held) < MOST_HELD:
            self._held[tenure] = self._start("lock.hold", now, around, _of_lease(tenure)), around

    def _failed(
        self,
        terms: Terms | None,
        name: str,
        owner: str,
        started: float,
        now: float,
        queued: bool,
        reason: str,
        code: str | None,
        around: Any,
    ) -> None:
        about = _about(terms, name, owner) | {"lock.waited": max(0.0, now - started), "lock.queued": queued}
        span = self._start("lock.acquire", started, around, about | {"error.type": code or reason})
        span.set_status(Status(StatusCode.ERROR, reason))
        span.end(self._at(now))

    def _ended(self, tenure: Tenure, now: float, how: str) -> Any:
        """Returns the context that the span began in; None if there was no span."""
        span, around = self._held.pop(tenure, (None, None))
        if span is not None:
            span.set_attribute("lock.ended", how)
            span.end(self._at(now))
        return around

    def refresh(self) -> None:
        """Forgets leases that were dropped without a release; looks at them only once there are many."""
        self._prepare_if_it_can_record()
        if len(self._held) >= MOST_HELD:
            for tenure in [each for each in self._held if not each.alive]:
                del self._held[tenure]

    def dropped(self, count: int) -> None: ...

    def end(self) -> None:
        self._held.clear()

    def after_fork(self) -> None:
        self._held.clear()


def _about(terms: Terms | None, name: str, owner: str) -> dict[str, Any]:
    kind, template = (Kind.MULTI, None) if terms is None else (terms.kind, terms.template)
    return {"lock.name": name, "lock.kind": kind.value, "lock.template": template, "lock.owner": owner[:SHOWN]}


def _of_lease(tenure: Tenure) -> dict[str, Any]:
    about = _about(tenure.terms, tenure.name, owner_text(tenure.owner))
    return about | {"lock.fence": tenure.fence, "lock.ttl": tenure.ttl}


def trace(recorder: Recorder, clock: Any, provider: TracerProvider | None, always: bool) -> None:
    for sink in recorder.sinks:
        if isinstance(sink, _Spans):
            recorder.sinks.remove(sink)  # the last call decides
            break
    recorder.sinks.append(_Spans(recorder, provider, clock, always))
