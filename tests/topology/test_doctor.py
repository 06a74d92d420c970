"""What `doctor` finds about replication and Sentinel, on real servers; each row once, with what was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdtight import Severity
from tests.faults.clients import OpenClient
from tests.support.processes import wait_for
from tests.support.sentinels import Topology
from tests.support.servers import RunningServer


@contextmanager
def configured(servers: list[RunningServer], **settings: str) -> Iterator[None]:
    """Sets these, and sets them back."""
    words = [(word.replace("_", "-"), value) for word, value in settings.items()]
    before = [[server.command("CONFIG", "GET", word)[1] for word, _ in words] for server in servers]
    try:
        for server in servers:
            for word, value in words:
                server.command("CONFIG", "SET", word, value)
        yield
    finally:
        for server, values in zip(servers, before, strict=True):
            for (word, _), value in zip(words, values, strict=True):
                server.command("CONFIG", "SET", word, value)


def ids(client: Any) -> list[str]:
    return [finding.id for finding in client.call(client.locks.doctor) if finding.id != "ASYNC_REPLICAS"]


@pytest.fixture
def good(topology: Topology) -> Iterator[Topology]:
    with configured(topology.servers, appendonly="yes", min_replicas_to_write="1"):
        for server in topology.servers:
            server.wait_for("CONFIG", "GET", "appendonly", be=["appendonly", "yes"])
        yield topology


def test_a_good_set_up_has_neither_error_nor_warning(good: Topology, open_client: OpenClient) -> None:
    client = open_client(good.url, ttl=10)
    wait_for(lambda: ids(client) == [], what="replicas to keep up")


Bad = Callable[[Topology], Any]
BAD: dict[str, tuple[str, Bad]] = {
    "MIN_REPLICAS": ("0", lambda it: configured(it.servers, min_replicas_to_write="0")),
    "REPLICA_PRIORITY": ("is 0", lambda it: configured(it.replicas[:1], replica_priority="0")),
    "REPLICA_PRIORITY unequal": ("unequal", lambda it: configured(it.replicas[:1], replica_priority="10")),
    "WRITABLE_REPLICA": ("replica-read-only is no", lambda it: configured(it.replicas[1:], replica_read_only="no")),
    "EMPTY_RESTART": ("neither", lambda it: configured([it.master], appendonly="no")),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_setting_is_found(good: Topology, open_client: OpenClient, what: str) -> None:
    seen, harm = BAD[what]
    client = open_client(good.url, ttl=10)
    with harm(good):
        found = {finding.id: finding for finding in client.call(client.locks.doctor)}
    assert seen in found[what.split()[0]].seen


def test_more_acks_than_replicas_are_found(good: Topology, open_client: OpenClient) -> None:
    assert "ACKS_UNREACHABLE" not in ids(open_client(good.url, ttl=10, acks=2))
    client = open_client(good.url, ttl=10, acks=3)
    found = {finding.id: finding for finding in client.call(client.locks.doctor)}
    assert found["ACKS_UNREACHABLE"].seen == "acks=3, and 2 replicas are online"
    assert found["ACKS_UNREACHABLE"].severity is Severity.ERROR


def test_a_failover_that_outlasts_the_leases_is_found(good: Topology, open_client: OpenClient) -> None:
    assert "SLOW_FAILOVER" in ids(open_client(good.url, ttl=4))


def test_sentinels_and_replicas_that_are_silent_are_found_in_time(good: Topology, open_client: OpenClient) -> None:
    client = open_client(good.url, ttl=10)
    good.sentinels[2].kill()
    good.replicas[1].pause()
    try:
        found = [f"{finding.id}: {finding.seen}" for finding in client.call(client.locks.doctor)]
    finally:
        good.heal()
    assert "FEW_SENTINELS: it cannot be asked: Connection refused" in found
    assert [each for each in found if each.startswith("REPLICA_LAG: it cannot be asked")]
