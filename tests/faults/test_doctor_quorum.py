"""`doctor` finds what is wrong with a quorum."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from holdtight import NotPermitted, Severity
from tests.faults.clients import OpenClient, start
from tests.faults.clocks import Clock, start_stepped, step
from tests.faults.doctoring import findings, ids, is_reached
from tests.faults.quorum import Nodes, Side, StartNodes
from tests.support.processes import PATIENCE
from tests.support.proxy import Proxy
from tests.support.servers import StartServer


@pytest.mark.parametrize(("offset", "severity"), [(0.8, Severity.WARNING), (3, Severity.ERROR)])
def test_a_node_whose_clock_differs_from_the_others(
    start_server: StartServer,
    open_client: OpenClient,
    shim: Path,
    tmp_path: Path,
    offset: float,
    severity: Severity,
) -> None:
    with closing(Clock(tmp_path / "offset")) as clock:
        nodes = Nodes([start_server(), start_server(), start_stepped(start_server, shim, tmp_path / "offset")])
        if not is_reached(nodes.servers[2], clock):
            pytest.skip("needs a server that takes its time from the C library: the clock shim does not reach it")
        nodes.bless()
        step(nodes.servers[2], clock, offset)
        (found,) = findings(open_client(nodes.urls))
        assert (found.id, found.severity, found.node) == ("NODE_CLOCKS", severity, nodes.urls[2])


def test_nothing_is_found_on_a_good_quorum(nodes: Nodes, open_client: OpenClient) -> None:
    client = open_client(nodes.urls)
    lease = client.acquire("a")
    assert findings(client) == []
    client.release(lease)


def test_nodes_that_cannot_be_reached(start_nodes: StartNodes, open_client: OpenClient) -> None:
    nodes = start_nodes(3)
    with Side(nodes) as side:
        client = open_client(side.urls)
        assert findings(client) == []
        side.cut_off([0], silently=False)
        assert ids(client) == ["UNREACHABLE"]
        side.cut_off([1], silently=True)
        found = findings(client)
        assert sorted(each.id for each in found) == ["NO_MAJORITY", "UNREACHABLE", "UNREACHABLE"]
        assert {each.node for each in found if each.id == "UNREACHABLE"} == set(side.urls[:2])
        side.heal()


def test_nodes_that_started_a_moment_ago(start_nodes: StartNodes, open_client: OpenClient) -> None:
    nodes = start_nodes(3, blessed=False)
    found = ids(open_client(nodes.urls))
    assert sorted(found) == ["GUARDED", "GUARDED", "GUARDED", "NO_MAJORITY"]


def test_an_even_number_of_nodes_that_forget(start_nodes: StartNodes, open_client: OpenClient) -> None:
    nodes = start_nodes(2, blessed=False)
    client = open_client(nodes.urls, restart_guard=False)
    assert sorted(ids(client)) == ["EVEN_QUORUM", "FORGETFUL_NODE", "FORGETFUL_NODE"]
    for server in nodes.servers:
        server.command("CONFIG", "SET", "appendonly", "yes")
    assert sorted(ids(client)) == ["EVEN_QUORUM", "FORGETFUL_NODE", "FORGETFUL_NODE"]
    for server in nodes.servers:
        server.command("CONFIG", "SET", "appendfsync", "always")
    assert ids(client) == ["EVEN_QUORUM"]


def test_one_server_under_two_addresses(start_nodes: StartNodes, open_client: OpenClient) -> None:
    nodes = start_nodes(2)
    with Proxy(nodes.servers[0].port) as proxy:
        assert ids(open_client([*nodes.urls, proxy.url])) == ["SAME_SERVER"]


def test_a_node_that_is_slow_to_connect_has_the_same_time(nodes: Nodes, open_client: OpenClient) -> None:
    with Side(nodes) as side:
        client, slow = open_client(side.urls), side.proxies[2]
        slow.delay(requests=0.7)
        doctor = start(lambda: client.call(client.locks.doctor))
        slow.wait_for_request(b"HELLO")
        slow.delay()  # its handshake alone is late
        assert "NODE_CLOCKS" not in [each.id for each in doctor.result(PATIENCE)]


def test_a_right_that_only_denied_waiters_of_a_quorum_need_is_named(nodes: Nodes, open_client: OpenClient) -> None:
    for server in nodes.servers:
        server.add_user("locker", "secret", "~*", "&*", "+@all", "-zremrangebyrank")
    client = open_client([url.replace("://", "://locker:secret@") for url in nodes.urls])
    lease = client.acquire("a")
    with pytest.raises(NotPermitted, match="zremrangebyrank"):
        client.acquire("a", wait=5)
    client.release(lease)
    found = findings(client)
    assert {(each.id, each.severity) for each in found} == {("RIGHT_MISSING", Severity.ERROR)}
    assert [each.seen for each in found] == ["the user may not run zremrangebyrank"] * len(nodes.servers)
