"""Requests that were given up arrive later, by their old connections: the proxy keeps them back and delivers them.

tests/scripts/test_late_packets.py has the whole matrix; here real clients of both colours use real connections. The
keeper gives a hung connection up after ttl/3, while a renewal on it may act for longer. Clients give up all other
requests when their arrival limit is over, unless the connection is reset.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdtight import Unavailable
from holdtight.stores.redis import script
from tests.faults.clients import Client, OpenClient, asks, load_scripts, start, tidy, waiting
from tests.support.processes import wait_for
from tests.support.proxy import Order, Proxy
from tests.support.servers import RunningServer

CUTS = pytest.mark.parametrize("cut", [False, True], ids=["hung", "reset"])
TAIL = 10.0
SHORT = 3.0
"""The keeper renews every second, and a renewal may arrive for two seconds."""


@pytest.fixture(autouse=True)
def known_scripts(private_server: RunningServer) -> None:
    load_scripts(private_server)


@pytest.fixture
def client(proxy: Proxy, open_client: OpenClient) -> Client:
    made = open_client(proxy.url, connect_timeout=5)
    made.release(made.acquire("warm"))
    return made


def kept(server: RunningServer, name: str) -> float:
    """The time that the server still gives the only holder."""
    with server.connect() as raw:
        sharing = raw.call("ZRANGE", f"ht:{{{name}}}:h", 0, -1, "WITHSCORES")
        if not sharing:
            return int(raw.call("PTTL", f"ht:{{{name}}}")) / 1000 - TAIL
        seconds, micros = raw.call("TIME")
        assert len(sharing) == 2
        return float(sharing[1]) / 1000 - int(seconds) - int(micros) / 1e6


def arrive(*late: Order) -> None:
    """The server carries out the held-back request; nothing reads the reply."""
    for each in late:
        each.release()
    wait_for(lambda: all(each.reply for each in late))


@CUTS
@pytest.mark.parametrize("kind", ["lock", "read", "permit"])
def test_a_late_renewal_does_not_undo_a_longer_one(
    private_server: RunningServer, proxy: Proxy, client: Client, kind: str, cut: bool
) -> None:
    lease = take(client, kind, SHORT)
    late = proxy.hold_request(asks(script.RENEW), cut=cut).wait()
    client.call(lease.renew, 60)
    arrive(late)
    assert lease.remaining() > 50
    assert kept(private_server, "a") >= lease.remaining()
    client.release(lease)
    tidy(private_server)


@pytest.mark.parametrize("kind", ["lock", "read", "permit"])
def test_a_late_first_request_does_not_undo_a_longer_renewal(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, client: Client, kind: str
) -> None:
    late = proxy.hold_request(asks(script.ATTEMPT if kind == "lock" else script.SHARE), cut=True)
    lease = take(client, kind, 5)
    client.call(lease.renew, 60)
    arrive(late.wait())
    assert lease.remaining() > 50
    assert kept(private_server, "a") >= lease.remaining()
    client.release(lease)
    tidy(private_server)


@CUTS
def test_a_late_shorter_renewal_does_not_undo_a_longer_one(
    private_server: RunningServer, proxy: Proxy, client: Client, cut: bool
) -> None:
    lease = take(client, "lock", 30)
    late = proxy.hold_request(asks(script.RENEW), cut=cut)
    while not late.done:  # a busy machine may give up the connection before the request is out
        try:
            client.call(lease.renew, 10)
        except Unavailable:
            assert not cut
    assert lease.remaining() <= 10, "the server may have done it"
    client.call(lease.renew, 60)
    arrive(late.wait())
    assert lease.remaining() > 50
    assert kept(private_server, "a") >= lease.remaining()
    client.release(lease)
    tidy(private_server)


def test_a_late_renewal_does_not_undo_a_shorter_one(
    private_server: RunningServer, proxy: Proxy, client: Client
) -> None:
    lease = take(client, "lock", SHORT)
    client.call(lease.renew, 60)
    late = proxy.hold_request(asks(script.RENEW), cut=True)
    client.call(lease.renew)
    client.call(lease.renew, 5)
    arrive(late.wait())
    assert lease.remaining() <= kept(private_server, "a") <= 5
    client.release(lease)
    tidy(private_server)


def test_a_late_attempt_puts_no_writer_in_line_after_a_downgrade(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, client: Client
) -> None:
    other = open_client(private_server.url)
    late = proxy.hold_request(asks(script.ATTEMPT), cut=True)
    writer = client.call(client.locks.rwlock("a").write(ttl=10).acquire)
    reader = client.call(writer.downgrade)
    arrive(late.wait())
    assert waiting(private_server, "a") == 0
    beside = other.call(other.locks.rwlock("a").read().try_acquire)
    assert beside is not None
    other.release(beside)
    client.release(reader)
    tidy(private_server)


def test_a_late_attempt_puts_nobody_in_line_after_an_adoption(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, client: Client
) -> None:
    other = open_client(private_server.url)
    late = proxy.hold_request(asks(script.ATTEMPT), cut=True)
    text = client.call(take(client, "lock", 10).detach)
    heir = other.call(other.locks.adopt, text)
    arrive(late.wait())
    assert waiting(private_server, "a") == 0
    other.release(heir)
    tidy(private_server)


def test_a_late_adoption_takes_nothing_after_it_was_given_up(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, client: Client
) -> None:
    other = open_client(private_server.url)
    text = other.call(take(other, "lock", 10).detach)
    late = [proxy.hold_request(asks(script.ADOPT), cut=True) for _ in range(3)]
    with pytest.raises(Unavailable):
        client.call(client.locks.adopt, text)
    proxy.wait_for_request(asks(script.WITHDRAW))
    arrive(*late)
    heir = other.call(other.locks.adopt, text)
    assert not heir.lost
    other.release(heir)
    tidy(private_server)


def test_a_waiter_is_rung_though_a_late_attempt_named_its_old_connection(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, client: Client
) -> None:
    """Its next heartbeat notices, long before its next attempt."""
    other = open_client(private_server.url)
    held = other.acquire("a", ttl=60)
    late = proxy.hold_request(asks(script.ATTEMPT), cut=True)
    waiter = start(lambda: client.acquire("a", wait=60))
    wait_for(lambda: waiting(private_server, "a") == 1, what="it stands in line")
    proxy.clear()
    arrive(late.wait())
    proxy.wait_for_request(asks(script.TOUCH))
    proxy.wait_for_request(asks(script.ATTEMPT))
    other.release(held)
    lease = waiter.result(30)
    client.release(lease)
    tidy(private_server)


def take(client: Client, kind: str, ttl: float) -> Any:
    lock: Any = {
        "lock": lambda: client.locks.lock("a", ttl=ttl),
        "read": lambda: client.locks.rwlock("a").read(ttl=ttl),
        "permit": lambda: client.locks.semaphore("a", permits=2, ttl=ttl),
    }[kind]()
    return client.call(lock.acquire)


def test_a_slow_grant_does_not_lengthen_the_arrival_limits_of_later_requests(proxy: Proxy, client: Client) -> None:
    known = client.locks.client
    before = known.lead
    proxy.delay(requests=0.8)
    client.release(client.acquire("slow"))
    assert known.lead < before + 0.4
