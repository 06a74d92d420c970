"""`metrics.watch`: every scrape shows the holders of these locks, whatever process they are in."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from holdtight import AsyncLocks, Locks, NotPermitted, ScriptError, metrics
from holdtight.base.values import LISTED
from tests.support.servers import RunningServer, StartServer, free_port

# Locks that are watched.


def test_watched_locks_are_shown_with_their_holders_in_all_processes(locks: Locks, registry: CollectorRegistry) -> None:
    metrics.watch(locks, "x", "free", registry=registry)
    with Locks(locks.place.display, label="report") as other, other.lock("x", ttl=20):
        text = generate_latest(registry).decode().splitlines()
        assert 'redis_lock_holders{lock="x"} 1.0' in text
        assert 'redis_lock_holders{lock="free"} 0.0' in text
        (about,) = [line for line in text if line.startswith("redis_lock_holder_info{")]
        assert f'label="report",lock="x",pid="{os.getpid()}"' in about
        assert registry.get_sample_value("redis_lock_queue_length", {"lock": "x"}) == 0
        assert registry.get_sample_value("redis_lock_ttl_seconds", {"lock": "x"}) == pytest.approx(20, abs=5)
    with locks.lock("x", reentrant=True), locks.lock("x", reentrant=True):
        assert registry.get_sample_value("redis_lock_reentries", {"lock": "x"}) == 2


def test_a_registry_watches_a_hundred_names_in_all(locks: Locks, registry: CollectorRegistry) -> None:
    names = [f"n{number}" for number in range(100)]
    metrics.watch(locks, *names[:60], registry=registry)
    metrics.watch(locks, *names[50:], *names[50:], registry=registry)
    with pytest.raises(ValueError, match="not 101"):
        metrics.watch(locks, "one more", registry=registry)
    found = {
        sample.labels["lock"]
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "redis_lock_holders"
    }
    assert found == set(names)


def test_all_holders_of_a_watched_lock_are_counted_also_those_that_an_inspection_does_not_show(
    locks: Locks, registry: CollectorRegistry
) -> None:
    metrics.watch(locks, "gate", registry=registry)
    gate = locks.semaphore("gate", permits=LISTED + 3)
    with ExitStack() as held:
        for _ in range(LISTED + 3):
            held.enter_context(gate)
        assert registry.get_sample_value("redis_lock_holders", {"lock": "gate"}) == LISTED + 3
    assert registry.get_sample_value("redis_lock_holders", {"lock": "gate"}) == 0


def test_a_scrape_in_the_thread_of_a_loop_shows_the_locks_that_its_client_watches(
    registry: CollectorRegistry,
) -> None:
    async def main() -> str:
        async with AsyncLocks("memory://watched-on-a-loop") as locks:
            metrics.install(locks, registry=registry)
            metrics.watch(locks, "x", registry=registry)
            async with locks.lock("x"):
                return generate_latest(registry).decode()

    text = asyncio.run(main()).splitlines()
    assert 'redis_lock_holders{lock="x"} 1.0' in text
    assert 'redis_lock_held{kind="exclusive",lock="other"} 1.0' in text


def test_watched_locks_of_a_server_that_is_away_are_not_shown(registry: CollectorRegistry) -> None:
    with Locks(f"redis://127.0.0.1:{free_port()}", connect_timeout=0.2) as locks:
        metrics.watch(locks, *(f"n{number}" for number in range(50)), registry=registry)
        began = time.monotonic()
        assert "{lock=" not in generate_latest(registry).decode()
        assert time.monotonic() - began < 5, "it is asked once, not for every name"


def test_a_name_that_cannot_be_read_hides_no_other(private_server: RunningServer, registry: CollectorRegistry) -> None:
    private_server.command("SET", "ht:{report}", "the value of another program")
    private_server.add_user("worker", "secret", "+@all", "&*", "~ht:client:*", "~ht:{report}*", "~ht:{nightly}*")
    with (
        Locks(private_server.url) as holder,
        Locks(f"redis://worker:secret@127.0.0.1:{private_server.port}/0") as locks,
        holder.lock("nightly", ttl=20),
    ):
        with pytest.raises(ScriptError):
            locks.inspect("report")
        with pytest.raises(NotPermitted):
            locks.inspect("hidden")
        metrics.watch(locks, "report", "hidden", "nightly", registry=registry)
        text = generate_latest(registry).decode().splitlines()
    shown = [line for line in text if line.startswith("redis_lock_holders{")]
    assert shown == ['redis_lock_holders{lock="nightly"} 1.0']


def test_watched_locks_are_not_shown_without_credentials_that_serve(
    start_server: StartServer, registry: CollectorRegistry
) -> None:
    server, asked = start_server(password="right"), list[str]()

    def wrong() -> str:
        asked.append("wrong")
        return "wrong"

    def fail() -> str:
        asked.append("fail")
        raise ValueError("the vault is sealed")

    with Locks(server.url, credentials=wrong) as refused, Locks(server.url, credentials=fail) as failing:
        metrics.watch(refused, "a", "b", registry=registry)
        metrics.watch(failing, "c", "d", registry=registry)
        assert "{lock=" not in generate_latest(registry).decode()
    assert asked == ["wrong", "fail"], "a client logs in once, not for every name"
