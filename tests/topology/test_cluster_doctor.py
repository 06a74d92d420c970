"""What `doctor` finds on a cluster: each row once, with what was seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from holdtight import Locks, Severity
from holdtight.cli.main import run_cli
from holdtight.clients.cluster_doctor import Seen, _look
from tests.faults.clients import Client, Colour, OpenClient
from tests.support.clusters import Cluster, slot_of
from tests.support.processes import wait_for
from tests.topology.test_doctor import configured


@pytest.fixture(params=["sync", pytest.param("asyncio", marks=pytest.mark.long)])
def colour(request: pytest.FixtureRequest) -> Colour:
    """Both colours send the same requests."""
    found: Colour = request.param
    return found


def found(client: Client) -> dict[str, Any]:
    return {finding.id: finding for finding in client.call(client.locks.doctor) if finding.id != "ASYNC_REPLICAS"}


@pytest.fixture
def good(cluster: Cluster) -> Iterator[Cluster]:
    servers: list[Any] = cluster.servers
    with configured(servers, appendonly="yes", cluster_require_full_coverage="no"):
        for server in servers:
            server.wait_for("CONFIG", "GET", "appendonly", be=["appendonly", "yes"])
        yield cluster


def test_a_good_set_up_has_no_finding(good: Cluster, open_client: OpenClient) -> None:
    client = open_client(good.url, ttl=10)
    wait_for(lambda: not found(client), what=f"nothing to be found, other than {found(client)}")


def test_what_is_wrong_is_found(good: Cluster, open_client: OpenClient) -> None:
    client = open_client(good.url, ttl=3)
    source, target = good.masters[:2]
    name = good.name_on(source)
    lease = client.acquire(name)
    with configured(
        list(good.servers), appendonly="no", cluster_require_full_coverage="yes", cluster_node_timeout="3000"
    ):
        source.command("CLUSTER", "SETSLOT", slot_of(name), "MIGRATING", target.id)
        try:
            seen = found(client)
        finally:
            source.command("CLUSTER", "SETSLOT", slot_of(name), "STABLE")
    assert set(seen) == {"EMPTY_RESTART", "FULL_COVERAGE", "SLOW_FAILOVER", "SLOT_OPEN"}
    assert str(slot_of(name)) in seen["SLOT_OPEN"].seen
    assert (seen["SLOT_OPEN"].severity, seen["FULL_COVERAGE"].severity) == (Severity.WARNING, Severity.NOTE)
    assert not lease.lost
    client.release(lease)


def test_a_slot_that_no_server_has_is_found(good: Cluster, open_client: OpenClient) -> None:
    slot = 1234
    owner = good.serving(slot)[0]
    client = open_client(good.url, ttl=10)
    for server in good.servers:
        server.command("CLUSTER", "DELSLOTS", slot)
    try:
        wait_for(lambda: "SLOT_UNSERVED" in found(client), what="the slot without a server")
        assert found(client)["SLOT_UNSERVED"].severity is Severity.ERROR
        assert "1 slots" in found(client)["SLOT_UNSERVED"].seen
    finally:
        owner.command("CLUSTER", "ADDSLOTS", slot)
    wait_for(lambda: not found(client), what="nothing to be found any more")


def test_a_shard_without_its_replica_and_one_that_is_gone_are_found(good: Cluster, open_client: OpenClient) -> None:
    client = open_client(good.url, ttl=10)
    (first, replicas), (second, others), *_ = good.map().values()
    replicas[0].kill()
    wait_for(lambda: "NO_REPLICA" in found(client), what="the missing replica to be found")
    others[0].pause()
    second.pause()
    try:
        seen = found(client)
        code = run_cli(["doctor", "--url", good.url])
    finally:
        good.heal()
    assert code == 1, "69 says that no server was reached"
    assert seen["UNREACHABLE"].node == f"redis://127.0.0.1:{second.port}/0"
    assert seen["NO_REPLICA"].node == f"redis://127.0.0.1:{first.port}/0"


def test_a_cluster_that_cannot_be_reached_is_one_finding() -> None:
    with Locks("redis+cluster://127.0.0.1:1") as locks:
        (only,) = locks.doctor()
        assert only.id == "UNREACHABLE"


def test_credentials_that_cannot_be_had_are_found(good: Cluster, open_client: OpenClient) -> None:
    sealed = False

    def give() -> tuple[str, str]:
        if sealed:
            raise ValueError("the vault is sealed")
        return "default", "any"

    client = open_client(good.url, credentials=give, ttl=10)
    wait_for(lambda: not found(client), what="nothing to be found")
    sealed = True
    for server in good.servers:
        server.command("CLIENT", "KILL", "TYPE", "normal")
    refused = [each for each in client.call(client.locks.doctor) if each.id == "REFUSED"]
    assert {each.node for each in refused} == {f"redis://127.0.0.1:{server.port}/0" for server in good.masters}
    assert all("the vault is sealed" in each.seen for each in refused)


def test_what_a_server_cannot_be_asked_is_left_out() -> None:
    """Also if its credentials can no longer be had between two requests."""

    class Asks:
        def __getattr__(self, name: str) -> Any:
            return lambda *words: name

    plan = _look(cast("Any", Asks()), "a server")
    asked: list[Any] = []
    seen: Seen | None = None
    while seen is None:
        try:
            asked.append(plan.throw(ValueError("the vault is sealed")) if asked else next(plan))
        except StopIteration as stop:
            seen = stop.value
    assert asked == ["clock_step", "info_step", "config_step", "config_step", "slots_step"]
    assert seen == Seen("a server", {}, None, "", "", None)
