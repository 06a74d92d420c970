"""Metrics of what goes wrong at a server: refusals, deaths, hangs, also of the nodes of a quorum."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from holdtight import Locks, NotOwner, NotPermitted, OutOfMemory, metrics
from tests.ops.counting import Counts, use
from tests.support.processes import StartChild, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer, StartServer


def test_refusals_by_the_server_are_counted_by_their_reason(
    private_server: RunningServer, registry: CollectorRegistry
) -> None:
    counts = Counts(registry)
    private_server.command("ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", "-set")
    other = f"redis://locker:secret@127.0.0.1:{private_server.port}"
    with Locks(private_server.url) as locks, Locks(other) as refused:
        for each in (locks, refused):
            metrics.install(each, registry=registry)
        use(locks, "x")
        with pytest.raises(NotPermitted):
            refused.lock("y").acquire()
        private_server.command("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(OutOfMemory):
            locks.lock("y").acquire()
        private_server.command("CONFIG", "SET", "maxmemory", "0")
    assert counts.failures() == {"not_permitted": 1, "out_of_memory": 1}


SLOW = """
from prometheus_client import CollectorRegistry
from holdtight import ClockDrift, Locks, metrics
from tests.ops.counting import Counts

registry = CollectorRegistry()
with Locks(args[0]) as locks:
    metrics.install(locks, registry=registry)
    with locks.lock("first"):
        pass
    print("ready", flush=True)
    input()
    try:
        locks.lock("x", ttl=1, wait=0).acquire()
    except ClockDrift:
        print(Counts(registry).failures(), flush=True)
"""


def test_a_process_that_is_paused_while_its_grant_is_under_way_counts_it_as_clock_drift(
    private_server: RunningServer, proxy: Proxy, start_child: StartChild
) -> None:
    child = start_child(SLOW, proxy.url)
    child.expect("ready")
    held = proxy.hold_reply(b"EVALSHA")
    child.send("go")
    held.wait()
    child.pause()
    held.release()
    wait_for(lambda: private_server.command("PTTL", "ht:{x}") < 10_000, what="the ttl to be over")
    child.resume()
    child.expect("{'clock_drift': 1.0}")
    assert child.wait() == 0


def test_a_server_that_dies_and_comes_back(start_server: StartServer, registry: CollectorRegistry) -> None:
    server, counts = start_server(), Counts(registry)
    with Locks(server.url) as locks:
        metrics.install(locks, registry=registry)
        lease = locks.lock("x", ttl=1.5).acquire()
        node = {"node": server.url}

        def health() -> float | None:
            metrics.flush()
            return registry.get_sample_value("redis_node_health", node)

        assert health() == 1
        server.stop()
        assert lease.wait_lost(20)
        assert counts.losses() == {"unreachable": 1}
        assert counts("renewals_total", result="failed") >= 1
        assert health() == 0
        server.restart()
        with pytest.raises(NotOwner):
            lease.release()
        use(locks, "y")
        assert health() == 1
        assert counts("held") == 0


def test_a_release_that_cannot_be_told(start_server: StartServer, registry: CollectorRegistry) -> None:
    server, counts = start_server(), Counts(registry)
    with Locks(server.url) as locks:
        metrics.install(locks, registry=registry)
        with locks.lock("x", ttl=20):
            server.stop()
        assert counts("release_failure_total") == 1
        assert counts("held") == 0


@pytest.mark.parametrize("down", [False, True])
def test_a_quorum(start_server: StartServer, registry: CollectorRegistry, down: bool) -> None:
    servers, counts = [start_server() for _ in range(3)], Counts(registry)
    with Locks([server.url for server in servers]) as locks:
        locks.bless()
        metrics.install(locks, registry=registry)
        if down:
            servers[2].stop()
        with locks.lock("x", ttl=3) as lease:
            wait_for(lambda: counts("renewals_total", result="renewed") >= 1)
            lease.check()
            assert counts("held") == 1
            assert locks.lock("x").try_acquire() is None
        assert counts("acquire_success_total") == counts("hold_duration_seconds_count") == 1
        assert 0 < counts("renew_margin_ratio_sum") / counts("renew_margin_ratio_count") < 0.7
        assert counts.failures() == {"busy": 1}
        wait_for(lambda: registry.get_sample_value("redis_node_health", {"node": servers[2].url}) == float(not down))
        assert registry.get_sample_value("redis_node_health", {"node": servers[0].url}) == 1


def test_a_node_that_hangs_is_not_healthy_until_it_answers_again(
    start_server: StartServer, registry: CollectorRegistry
) -> None:
    """Its connections stay: only the breaker knows."""
    servers = [start_server() for _ in range(3)]
    with Locks([server.url for server in servers]) as locks:
        locks.bless()
        metrics.install(locks, registry=registry)

        def healthy_now() -> float | None:
            with locks.lock("x", ttl=3):
                return registry.get_sample_value("redis_node_health", {"node": servers[2].url})

        assert healthy_now() == 1
        servers[2].pause()
        try:
            wait_for(lambda: healthy_now() == 0)
        finally:
            servers[2].resume()
        wait_for(lambda: healthy_now() == 1)


# OpenTelemetry.
