"""The recorder: it counts what has happened at a scrape or by itself, survives forks, signals and failing libraries."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from holdtight import Locks, metrics
from holdtight.base.records import ENDED, GRANTED
from holdtight.ops import recorder
from tests.ops.counting import Counts, counted_alone, use
from tests.support.processes import wait_for


def test_recording_is_no_listening(locks: Locks) -> None:
    assert not locks.events.loud, "a loud client takes no short waits"
    assert locks.events.active


def test_the_meter_counts_by_itself(locks: Locks, registry: CollectorRegistry) -> None:
    use(locks, "x")
    wait_for(lambda: counted_alone(registry, "redis_lock_hold_duration_seconds_count") == 1)


def test_a_scrape_counts_first_what_has_happened(locks: Locks, registry: CollectorRegistry) -> None:
    for number in range(1, 4):
        use(locks, "x")
        line = f'redis_lock_acquire_success_total{{kind="exclusive",lock="other"}} {number}.0'
        assert line in generate_latest(registry).decode().splitlines()


def test_what_is_too_much_is_dropped_and_counted(
    locks: Locks, registry: CollectorRegistry, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MOST", 10)
    with recorder.meter._counting:  # nothing is counted meanwhile
        for _ in range(20):
            use(locks, "x")
    assert counts("acquire_success_total") == 5
    assert registry.get_sample_value("redis_lock_metrics_dropped_total") == 30
    assert counts("held") == 0
    use(locks, "x")
    assert counts("acquire_success_total") == 6


def test_a_process_that_takes_locks_without_pause_loses_no_record(
    locks: Locks, registry: CollectorRegistry, counts: Counts
) -> None:
    """75,000 pairs a second, as some hundred asyncio tasks reach: the meter must keep up, and still set the gauges."""
    record, sent = locks.events.record, 0
    assert record is not None
    with locks.lock("x", ttl=20) as lease, locks.lock("nightly", ttl=20):
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            for _ in range(75):
                record((GRANTED, lease.tenure, 0.0, 0.0, False))
                record((ENDED, lease.tenure, 0.0, "released"))
            sent += 75
            time.sleep(0.001)
        assert counted_alone(registry, "redis_lock_held", "nightly") == 1
    assert counts("acquire_success_total") == counts("hold_duration_seconds_count") == sent + 1
    assert registry.get_sample_value("redis_lock_metrics_dropped_total") == 0


def test_a_library_that_fails_is_logged_and_does_not_stop_the_others(
    locks: Locks, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise ZeroDivisionError(name)

    found = recorder.recorder_of(locks.events)
    found.sinks.insert(0, Broken())
    use(locks, "x")
    assert counts("acquire_success_total") == 1
    del found.sinks[0]
    wait_for(lambda: "a metrics or tracing library failed" in caplog.text)


def test_a_dropped_client_is_collected_and_what_it_did_is_counted(registry: CollectorRegistry) -> None:
    with Locks("memory://short-lived") as locks:
        metrics.install(locks, registry=registry)
        use(locks, "x")
    gone = weakref.ref(locks.events)
    del locks
    metrics.flush()

    def collected() -> bool:
        metrics.flush()
        gc.collect()
        return gone() is None

    wait_for(collected)
    assert Counts(registry)("acquire_success_total") == 1
    before = len(recorder.meter.recorders)
    metrics.flush()
    assert len(recorder.meter.recorders) <= before


def test_a_lock_taken_in_a_signal_handler_is_counted_and_hangs_nothing(locks: Locks, counts: Counts) -> None:
    """The handler runs in the middle of the counting, also of the library's own."""
    taken = 0

    def handler(number: int, frame: object) -> None:
        nonlocal taken
        use(locks, "from a handler")
        metrics.flush()
        taken += 1
        signal.setitimer(signal.ITIMER_REAL, 0.003)  # the next one comes after this handler, not in it

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.003)
        end, pairs = time.monotonic() + 1.0, 0
        while time.monotonic() < end:
            use(locks, "x")
            metrics.flush()
            pairs += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert taken > 20
    assert counts("acquire_success_total") == counts("hold_duration_seconds_count") == taken + pairs


class Slow:
    """A slow library that holds a plain lock, as all of them do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self, records: list[Any]) -> None:
        with self._lock:
            time.sleep(0.002)

    def refresh(self) -> None: ...
    def dropped(self, count: int) -> None: ...
    def end(self) -> None: ...
    def after_fork(self) -> None: ...


def test_a_child_forked_while_others_count_does_not_hang_and_counts_its_own(
    locks: Locks, registry: CollectorRegistry, counts: Counts
) -> None:
    """Threads count without pause while the main thread forks."""
    recorder.recorder_of(locks.events).sinks.append(Slow())
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            use(locks, "x")
            metrics.flush()

    threads = [threading.Thread(target=busy) for _ in range(3)]
    with locks.lock("held by the parent"):
        for thread in threads:
            thread.start()
        try:
            for _ in range(10):
                child = os.fork()
                if child == 0:
                    os._exit(_child(locks, counts))
                assert _ended(child) == 0
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert counts("held") == 0
    assert counts("acquire_success_total") == counts("hold_duration_seconds_count")


def test_what_the_parent_has_not_counted_yet_is_not_the_childs(locks: Locks, counts: Counts) -> None:
    use(locks, "x")
    assert counts("acquire_success_total") == 1
    with recorder.meter._counting:  # nothing is counted meanwhile
        use(locks, "x")
        child = os.fork()
        if child == 0:
            os._exit(0 if counts("acquire_success_total") == 1 else 3)
        assert _ended(child) == 0
    assert counts("acquire_success_total") == 2


def _child(locks: Locks, counts: Counts) -> int:
    signal.alarm(20)  # a child that hangs dies
    before = counts("acquire_success_total")
    if counts("held") != 0:
        return 3
    with locks.lock("x"):
        if counts("held") != 1:
            return 4
    end = time.monotonic() + 5
    while counted_alone(counts.registry, "redis_lock_held") != 0:
        if time.monotonic() > end:
            return 5
        time.sleep(0.01)
    return 0 if counts("acquire_success_total") == before + 1 else 6


def _ended(child: int) -> int:
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
