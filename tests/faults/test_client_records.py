"""`inspect` names the holder of every lock by host and pid, also if its client was idle until just now."""

from __future__ import annotations

import os
from typing import Any

import pytest

from holdtight import Locks
from holdtight.keeper import keeper
from tests.faults.clients import Client, OpenClient
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


def close(client: Client) -> None:
    """Closes the client, not its loop."""
    client.call(getattr(client.locks, "aclose", None) or client.locks.close)


def pid_of_holder(server: RunningServer, name: str) -> int | None:
    with Locks(server.url) as outside:
        (holder,) = outside.inspect(name).holders
        return holder.pid


@pytest.mark.parametrize("options", [{}, {"renew": False}], ids=["renewed", "not renewed"])
def test_a_lease_that_outlives_its_client_still_has_a_holder_with_a_pid(
    private_server: RunningServer, open_client: OpenClient, options: dict[str, bool]
) -> None:
    client = open_client(private_server.url)
    lease = client.acquire("a", ttl=30, **options)
    close(client)
    for _ in range(5):
        assert pid_of_holder(private_server, "a") == os.getpid()
    client.release(lease)


def test_a_lease_that_was_renewed_and_outlives_its_client_has_one_too(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    lease = client.acquire("a", ttl=3)
    renewed(lease)  # the keeper has a connection of its own
    close(client)
    renewed(lease)
    assert pid_of_holder(private_server, "a") == os.getpid()
    client.release(lease)


def test_a_detached_lease_that_waits_for_its_adopter_has_one_too(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    lease: Any = client.acquire("a", ttl=3)
    text = client.call(lease.detach, 30)
    close(client)
    assert pid_of_holder(private_server, "a") == os.getpid()
    with Locks(private_server.url) as other:
        other.adopt(text).release()


def test_a_closed_client_that_holds_nothing_leaves_no_record(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    client.release(client.acquire("a", ttl=30))
    close(client)
    wait_for(lambda: private_server.command("KEYS", "ht:client:*") == [])


def test_the_record_of_a_process_that_dies_stays_as_long_as_its_locks(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    client = open_client(private_server.url)
    for ttl in (30, 3600, 10):
        lease = client.acquire(f"for {ttl} s", ttl=ttl)
        (record,) = private_server.command("KEYS", "ht:client:*")
        assert private_server.command("TTL", record) > ttl
        client.release(lease)
    taken: Any = client.acquire("b", ttl=3)
    client.call(taken.renew, 7200)
    renewed_record = client.acquire("c", ttl=3)  # the next request of the client writes it anew
    assert private_server.command("TTL", record) > 7200
    client.release(taken)
    client.release(renewed_record)
