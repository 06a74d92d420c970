"""Servers that go and come back are told of once each; acquisitions that they fail are told of too."""

from __future__ import annotations

import pytest

from holdtight import LockTimeout, Unavailable
from holdtight.events import Event, Failed, NodeDown, NodeUp, Queued
from tests.faults.clients import OpenClient
from tests.faults.quorum import StartNodes
from tests.support.processes import wait_for
from tests.support.proxy import Proxy


def test_a_server_that_goes_and_comes_back_is_told_of_once_each(proxy: Proxy, open_client: OpenClient) -> None:
    client = open_client(proxy.url, connect_timeout=1)
    heard: list[Event] = []
    client.locks.events.subscribe(lambda event: heard.append(event) if isinstance(event, NodeDown | NodeUp) else None)
    client.release(client.acquire("a"))
    assert heard == [], "the first connection is no news"
    proxy.refuse()
    proxy.cut()
    for _ in range(2):
        with pytest.raises(Unavailable):
            client.acquire("a")
    wait_for(lambda: len(heard) == 1)
    proxy.accept()
    client.release(client.acquire("a"))
    wait_for(lambda: len(heard) == 2)
    down, up = heard
    assert isinstance(down, NodeDown)
    assert isinstance(up, NodeUp)
    assert down.node == up.node == proxy.url
    assert "refused" in down.cause


def test_a_quorum_tells_of_failed_acquisitions_and_of_the_node_that_is_down(
    start_nodes: StartNodes, open_client: OpenClient
) -> None:
    nodes = start_nodes(3)
    client = open_client(nodes.urls)
    other = open_client(nodes.urls)
    heard: list[Event] = []
    client.locks.events.subscribe(heard.append)
    lease = other.acquire("a")
    assert client.try_acquire("a") is None
    with pytest.raises(LockTimeout):
        client.acquire("a", wait=0.3)
    other.release(lease)
    failed = [event for event in heard if isinstance(event, Failed)]
    assert [event.reason for event in failed] == ["busy", "timeout"]
    assert [event.position for event in heard if isinstance(event, Queued)] == [0]
    nodes.servers[0].stop()

    def told() -> bool:
        client.release(client.acquire("a"))
        return any(isinstance(event, NodeDown) for event in heard)

    wait_for(told)
    assert {event.node for event in heard if isinstance(event, NodeDown)} == {nodes.urls[0]}
