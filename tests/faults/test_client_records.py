"""`inspect` names the holder of every lock by host and pid, also if its client was idle until just now."""

from __future__ import annotations

import os

import pytest

from holdtight import Locks
from holdtight.keeper import keeper
from tests.faults.clients import OpenClient
from tests.support.leases import renewed
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


def test_a_lock_taken_while_the_keeper_finds_its_client_idle_has_a_holder_with_a_pid(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "RECORD_TICK", 0.05)
    client = open_client(proxy.url)
    lease = client.acquire("a", ttl=3)
    renewed(lease)  # the keeper has a connection of its own
    late = proxy.hold_request(b"\r\nDEL\r\n")
    client.release(lease)
    wait_for(lambda: late.done or proxy.connections == 1, what="the keeper has found the client idle")
    lease = client.acquire("a", ttl=30)
    late.release()  # whatever the keeper sent before arrives after the grant
    with Locks(private_server.url) as outside:
        for _ in range(20):
            (holder,) = outside.inspect("a").holders
            assert holder.pid == os.getpid()
    client.release(lease)
