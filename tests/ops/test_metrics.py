"""Metrics besides what scenarios/test_metrics.py counts: labels, kinds, degradation, watched locks, both libraries."""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from holdtight import DeadlockDetected, Locks, NotOwner, Profile, Unavailable, metrics
from holdtight.ops.instruments import INSTRUMENTS
from holdtight.ops.otel import _OpenTelemetry
from holdtight.ops.prometheus import _Prometheus
from holdtight.sync import lock as lock_module
from tests.ops.counting import Counts, use
from tests.support.processes import StartChild, wait_for
from tests.support.servers import free_port

NAMES = {
    "redis_lock_acquire_success_total": "counter lock kind",
    "redis_lock_acquire_failure_total": "counter lock kind reason",
    "redis_lock_acquire_wait_seconds": "histogram lock kind outcome",
    "redis_lock_hold_duration_seconds": "histogram lock kind",
    "redis_lock_held": "gauge lock kind",
    "redis_lock_waiters": "gauge lock kind",
    "redis_lock_oldest_hold_seconds": "gauge lock kind",
    "redis_lock_renewals_total": "counter lock kind result",
    "redis_lock_renew_margin_ratio": "histogram lock kind",
    "redis_lock_lost_total": "counter lock kind reason",
    "redis_lock_expired_total": "counter lock kind",
    "redis_lock_release_failure_total": "counter lock kind",
    "redis_lock_forced_release_total": "counter lock kind",
    "redis_lock_degraded_total": "counter lock kind how",
    "redis_node_health": "gauge node",
    "redis_lock_metrics_dropped_total": "counter",
}


def test_a_release_by_force_is_counted_by_the_client_that_did_it(locks: Locks, counts: Counts) -> None:
    held = [locks.semaphore("order:1", permits=2).acquire() for _ in range(2)]
    locks.force_release("order:1", reason="hangs")
    assert counts("forced_release_total", lock="order:*", kind="permits") == 2
    for lease in held:
        with pytest.raises(NotOwner):
            lease.release()


# Names and labels.


def test_the_instruments_are_those_of_the_contract() -> None:
    assert {each.name: " ".join([each.type, *each.labels]) for each in INSTRUMENTS} == NAMES


def test_the_label_is_the_pattern_else_a_listed_name_else_other(locks: Locks, counts: Counts) -> None:
    use(locks, "order:1", "order:2", "page:1", "nightly", "x", "y")
    found = {label: counts("acquire_success_total", lock=label) for label in ("order:*", "page:*", "nightly", "other")}
    assert found == {"order:*": 2, "page:*": 1, "nightly": 1, "other": 2}


def test_label_of_has_the_last_word_and_may_fail(locks: Locks, registry: CollectorRegistry, counts: Counts) -> None:
    def label_of(name: str) -> Any:
        return {"a:1": "a", "bad": 7, "none": None}[name]

    metrics.install(locks, registry=registry, label_of=label_of)
    use(locks, "a:1", "bad", "none", "unknown", "order:1")
    assert counts("acquire_success_total", lock="a") == 1
    assert counts("acquire_success_total") == 3
    assert counts("acquire_success_total", lock="order:*") == 1


def test_at_most_a_hundred_labels_are_told_apart(registry: CollectorRegistry) -> None:
    with Locks("memory://") as locks:
        metrics.install(locks, registry=registry, label_of=lambda name: name)
        use(locks, *(f"n{number}" for number in range(150)))
        metrics.flush()
        shown = {
            sample.labels["lock"]
            for metric in registry.collect()
            for sample in metric.samples
            if "lock" in sample.labels
        }
        assert len(shown) == 101
        assert Counts(registry)("acquire_success_total") == 50


def test_installing_twice_counts_once_and_clients_share_a_registry(
    locks: Locks, registry: CollectorRegistry, counts: Counts
) -> None:
    metrics.install(locks, registry=registry)
    with Locks("memory://other-client") as other:
        metrics.install(other, registry=registry)
        with locks.lock("x"), other.lock("x"):
            assert counts("held") == 2
        assert counts("acquire_success_total") == 2


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda of, locks: of.install(None), TypeError, "locks must be a Locks or AsyncLocks, not NoneType"),
        (lambda of, locks: of.install(locks, names="abc"), TypeError, "names must be several texts, not str"),
        (lambda of, locks: of.install(locks, names=[1]), TypeError, "a name must be a text, not int"),
        (lambda of, locks: of.install_otel(locks, label_of="x"), TypeError, "label_of must be callable, not str"),
        (lambda of, locks: of.watch(locks), ValueError, "watch takes 1 to 100 names, not 0"),
        (lambda of, locks: of.watch(locks, "x", ""), ValueError, "name is empty"),
        (lambda of, locks: of.watch(locks, "a\nb"), ValueError, "contains control characters"),
        (
            lambda of, locks: of.watch(locks, *map(str, range(101)), registry=CollectorRegistry()),
            ValueError,
            "at most 100 names, .* not 101",
        ),
    ],
)
def test_wrong_arguments_are_named(
    locks: Locks, wrong: Callable[[Any, Any], None], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        wrong(metrics, locks)


@pytest.mark.parametrize(
    ("extra", "package", "module", "verb"),
    [
        ("prometheus", "prometheus_client", "prometheus", "install"),
        ("prometheus", "prometheus_client", "watching", "watch"),
        ("otel", "opentelemetry", "otel", "install_otel"),
    ],
)
def test_a_missing_extra_is_named(
    locks: Locks, monkeypatch: pytest.MonkeyPatch, extra: str, package: str, module: str, verb: str
) -> None:
    monkeypatch.delitem(sys.modules, f"holdtight.ops.{module}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=re.escape(f"pip install 'holdtight[{extra}]'")):
        getattr(metrics, verb)(locks, *["x"] * (verb == "watch"))


# Kinds.


def test_readers_writers_permits_and_several_locks(locks: Locks, counts: Counts) -> None:
    with locks.rwlock("b").read(), locks.semaphore("s", permits=3), locks.multi("m1", "m2"):
        held = {kind: counts("held", kind=kind) for kind in ("shared", "permits", "exclusive")}
        assert held == {"shared": 1, "permits": 1, "exclusive": 2}
    assert counts("acquire_success_total", kind="permits") == 1
    assert counts("acquire_success_total", kind="exclusive") == 2, "the parts of several locks count each"
    assert [counts("held", kind=kind) for kind in held] == [0, 0, 0]


def test_a_downgrade_is_no_second_grant(locks: Locks, counts: Counts) -> None:
    with locks.rwlock("b").write() as lease:
        reading = lease.downgrade()
        assert (counts("held"), counts("held", kind="shared")) == (0, 1)
        assert counts("hold_duration_seconds_count") == 1
        assert reading.kind.value == "shared"
    assert counts("held", kind="shared") == 0
    assert counts("acquire_success_total") == 1
    assert counts("acquire_success_total", kind="shared") == 0


def test_re_entry_is_no_second_grant_and_adoption_is(locks: Locks, counts: Counts) -> None:
    lock = locks.lock("r", reentrant=True)
    with lock, lock:
        pass
    assert counts("acquire_success_total") == 1
    text = locks.lock("d").acquire().detach()
    assert (counts("held"), counts("hold_duration_seconds_count")) == (0, 2)
    locks.adopt(text).release()
    assert counts("acquire_success_total") == 3


def test_a_caller_that_waits_for_itself_is_a_deadlock(locks: Locks, counts: Counts) -> None:
    with locks.lock("x"), pytest.raises(DeadlockDetected):
        locks.lock("x").acquire()
    assert counts.failures() == {"deadlock": 1}


def test_a_short_wait_counts_among_those_in_line(locks: Locks, counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual wait of a blocking caller, which no plan carries out."""
    with locks.lock("warm", ttl=60):  # connects, and writes the client's record for as long
        pass
    monkeypatch.setattr(lock_module, "TOUCH_SECONDS", 60)
    monkeypatch.setattr(lock_module.Lock, "_slowly", _no_plan)

    def wait() -> None:
        with locks.lock("x"):
            pass

    waiter = threading.Thread(target=wait)
    with locks.lock("x", ttl=60):
        waiter.start()
        wait_for(lambda: counts("waiters") == 1)
    waiter.join(20)
    assert counts("waiters") == 0
    assert counts("acquire_success_total") == counts("acquire_wait_seconds_count", outcome="acquired") == 3


def _no_plan(*args: object) -> None:
    raise AssertionError("it took the long way")


def test_a_dropped_lease_is_held_no_more(locks: Locks, counts: Counts) -> None:
    lease = locks.lock("x").acquire()
    assert counts("held") == 1
    with pytest.warns(ResourceWarning, match="dropped"):  # noqa: PT031
        del lease
        gc.collect()
    assert counts("held") == 0


# Servers.


@pytest.mark.parametrize("how", ["local", "open", "raise"])
def test_a_lease_without_the_server_counts_as_degraded_only(registry: CollectorRegistry, how: Any) -> None:
    counts = Counts(registry)
    url = f"redis://127.0.0.1:{free_port()}"
    with Locks(url, on_unavailable=how, connect_timeout=0.2) as locks:
        metrics.install(locks, registry=registry)
        if how == "raise":
            with pytest.raises(Unavailable):
                locks.lock("x").acquire()
        else:
            use(locks, "x")
        assert counts.failures() == ({"unavailable": 1} if how == "raise" else {})
        assert counts("degraded_total", how=how) == (-1 if how == "raise" else 1)
        assert counts("acquire_success_total") <= 0
        assert counts("hold_duration_seconds_count") <= 0
        assert registry.get_sample_value("redis_node_health", {"node": f"{url}/0"}) == 0


def test_opentelemetry_counts_the_same() -> None:
    reader = InMemoryMetricReader()
    with Locks("memory://otel", profiles={"order:*": Profile()}) as locks:
        metrics.install_otel(locks, meter_provider=MeterProvider([reader]))
        metrics.install_otel(locks, meter_provider=MeterProvider())
        with locks.lock("order:1"):
            assert locks.lock("order:1").try_acquire() is None
            metrics.flush()
            shown = points(reader)
        of = {"lock": "order:*", "kind": "exclusive"}
        assert shown["redis.lock.acquire.success"] == [(of, 1)]
        assert shown["redis.lock.acquire.failure"] == [(of | {"reason": "busy"}, 1)]
        assert shown["redis.lock.acquire.wait"] == [(of | {"outcome": "acquired"}, 1), (of | {"outcome": "failed"}, 1)]
        assert shown["redis.lock.held"] == [(of, 1)]
        metrics.flush()
        shown = points(reader)
        assert shown["redis.lock.held"] == [(of, 0)]
        assert shown["redis.lock.hold.duration"] == [(of, 1)]


def test_translated_to_prometheus_the_instruments_of_opentelemetry_have_the_names_of_prometheus() -> None:
    """And its labels and buckets: one dashboard and one set of alert rules fit both."""
    plain, translated = CollectorRegistry(), CollectorRegistry()
    provider = MeterProvider([PrometheusMetricReader(True, scope_info_enabled=False, registry=translated)])
    for library in (_Prometheus(plain), _OpenTelemetry(provider)):
        for each in INSTRUMENTS:
            library.bind(each.name, each.labels)(0.7)
    assert series(translated) == series(plain)
    provider.shutdown()


def series(registry: CollectorRegistry) -> set[tuple[str, str, float | None]]:
    """The name and the labels of each series; of a bucket, its upper bound."""
    return {
        (sample.name, " ".join(sorted(sample.labels)), float(sample.labels["le"]) if "le" in sample.labels else None)
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


SHORT = """
from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from holdtight import Locks, metrics

def shown(data):
    scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    counted = {metric.name: metric.data.data_points[0] for scope in scopes for metric in scope.metrics}
    return f"{counted['redis.lock.acquire.success'].value} {counted['redis.lock.hold.duration'].count}\\n"

def made():
    return MeterProvider([PeriodicExportingMetricReader(ConsoleMetricExporter(formatter=shown))])

locks = Locks("memory://")
if args == ["given"]:
    metrics.install_otel(locks, meter_provider=made())
elif args == ["global"]:
    api.set_meter_provider(made())
    metrics.install_otel(locks)
else:
    metrics.install_otel(locks)
    api.set_meter_provider(made())
for _ in range(3):
    with locks.lock("x"):
        pass
"""


@pytest.mark.parametrize("provider", ["given", "global", "made later"])
def test_opentelemetry_gets_the_counts_of_a_program_that_ends_at_once(start_child: StartChild, provider: str) -> None:
    """The SDK shuts its provider down at exit: the provider collects once more, and its instruments must be up to date
    by then."""
    child = start_child(SHORT, provider)
    assert child.lines() == ["3 3"], child.errors
    assert child.wait() == 0
    assert child.errors == ""


def points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], float]]]:
    """The values, of histograms the counts; by instrument."""
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, list[tuple[dict[str, Any], float]]] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            value: Any = getattr(point, "count", None) or getattr(point, "value", 0)
            found.setdefault(metric.name, []).append((dict(point.attributes or {}), value))
            if metric.name.endswith((".wait", ".duration")):
                assert metric.unit == "s"
    return found
