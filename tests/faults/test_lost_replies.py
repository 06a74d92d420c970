"""Faults 1 and 4 of the peers: one reply is lost; the lock is still taken, or given back, exactly once."""

from __future__ import annotations

import re
import time
from concurrent.futures import Future
from typing import Any

import pytest

from holdtight import Unavailable
from holdtight.stores.redis import script
from tests.faults.clients import Client, OpenClient, asks, load_scripts, start, tidy, waiting
from tests.support.processes import wait_for
from tests.support.proxy import Order, Proxy
from tests.support.servers import RunningServer

CUTS = pytest.mark.parametrize("cut", [False, True], ids=["silent", "cut"])


def fence_in(order: Order) -> int:
    """The fence in a swallowed reply."""
    found = re.search(rb"\b(\d{16})\b", order.reply)
    assert found is not None, order.reply
    return int(found[1])


@pytest.fixture(autouse=True)
def known_scripts(private_server: RunningServer) -> None:
    load_scripts(private_server)


@CUTS
def test_a_lost_reply_to_the_first_attempt_costs_one_asking_and_no_second_grant(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, cut: bool
) -> None:
    client, other = open_client(proxy.url, connect_timeout=5), open_client(private_server.url)
    client.release(client.acquire("warm"))
    lost = proxy.swallow_reply(asks(script.ATTEMPT), cut=cut)
    lease = client.acquire("a", ttl=2.5)
    lost.wait()
    assert lease.fence == fence_in(lost), "the same grant, not another"
    assert other.try_acquire("a") is None
    assert not lease.lost
    client.release(lease)
    again = other.try_acquire("a")
    assert again is not None
    assert again.fence > lease.fence
    other.release(again)
    tidy(private_server)


@pytest.mark.parametrize("wait", [None, 4])
def test_with_nothing_set_up_for_it_a_lost_reply_is_asked_for_again(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, wait: float | None
) -> None:
    client = open_client(proxy.url)
    client.release(client.acquire("warm"))
    lost = proxy.swallow_reply(asks(script.ATTEMPT))
    lease = client.acquire("a", wait=wait)
    assert lease.fence == fence_in(lost)
    client.release(lease)
    tidy(private_server)


def test_a_lost_request_is_asked_again(private_server: RunningServer, proxy: Proxy, open_client: OpenClient) -> None:
    client = open_client(proxy.url, connect_timeout=5)
    client.release(client.acquire("warm"))
    proxy.swallow_request(asks(script.ATTEMPT))
    client.release(client.acquire("a", ttl=1.5))
    tidy(private_server)


def test_a_lost_reply_on_a_fresh_connection_is_asked_again(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    client = open_client(proxy.url, connect_timeout=5)
    lost = proxy.swallow_reply(asks(script.ATTEMPT), cut=True)
    lease = client.acquire("a", ttl=2.5)
    assert lease.fence == fence_in(lost)
    client.release(lease)
    tidy(private_server)


@pytest.mark.parametrize("answer", ["granted", "denied"])
def test_a_lost_reply_to_try_acquire_is_unavailable_and_leaves_nothing(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, answer: str
) -> None:
    client, other = open_client(proxy.url, connect_timeout=5), open_client(private_server.url)
    client.release(client.acquire("warm"))
    held = other.acquire("a") if answer == "denied" else None
    proxy.swallow_reply(asks(script.ATTEMPT))
    with pytest.raises(Unavailable):
        client.try_acquire("a", ttl=0.9)
    if held is not None:
        other.release(held)
    # Its withdrawal may be in flight; it takes a claim window at most.
    other.release(other.acquire("a", wait=2))
    tidy(private_server)


WARM = pytest.mark.parametrize("warm", [False, True], ids=["first use", "used before"])


@CUTS
@WARM
def test_a_lost_reply_to_a_confirmation_is_asked_again(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, cut: bool, warm: bool
) -> None:
    client, holder = open_client(proxy.url, connect_timeout=5), open_client(private_server.url)
    held, waiter = _one_in_line(private_server, client, holder, warm=warm, ttl=6)
    lost = proxy.swallow_reply(asks(script.ATTEMPT), cut=cut)
    holder.release(held)
    lease = waiter.result(10)
    lost.wait()
    assert lease.fence == fence_in(lost) > held.fence
    assert not lease.lost
    assert holder.try_acquire("a") is None
    client.release(lease)
    after = holder.try_acquire("a")
    assert after is not None
    assert after.fence > lease.fence
    holder.release(after)
    tidy(private_server)


@CUTS
def test_a_lost_reply_to_a_release_is_asked_again_and_is_no_error(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, cut: bool
) -> None:
    client, other = open_client(proxy.url, connect_timeout=5), open_client(private_server.url)
    lease = client.acquire("a")
    lost = proxy.swallow_reply(asks(script.RELEASE), cut=cut)
    releasing = start(lambda: client.release(lease))
    lost.wait()
    again = other.try_acquire("a")
    assert again is not None, "the server has heard of the release"
    releasing.result(10)
    assert other.try_acquire("a") is None, "asking again must not release another's lock"
    client.release(lease)
    assert not again.lost
    other.release(again)
    tidy(private_server)


def test_a_lost_release_request_is_sent_again(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    client, other = open_client(proxy.url, connect_timeout=5), open_client(private_server.url)
    lease = client.acquire("a")
    proxy.swallow_request(asks(script.RELEASE), cut=True)
    client.release(lease)
    again = other.try_acquire("a")
    assert again is not None
    other.release(again)


@CUTS
def test_a_lost_reply_to_a_renewal_loses_nothing(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, cut: bool
) -> None:
    client, other = open_client(proxy.url, connect_timeout=5), open_client(private_server.url)
    lease = client.acquire("a", ttl=2)
    lost = proxy.swallow_reply(asks(script.RENEW), cut=cut)
    lost.wait()
    first_end = time.monotonic() + lease.remaining()
    wait_for(lambda: time.monotonic() > first_end + 0.1, what="the time of the first grant to run out")
    assert not lease.lost
    assert other.try_acquire("a") is None
    client.release(lease)
    tidy(private_server)


@CUTS
def test_a_lost_reply_to_a_withdrawal_leaves_nobody_in_line(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, cut: bool
) -> None:
    client, holder = open_client(proxy.url, connect_timeout=5), open_client(private_server.url)
    held = holder.acquire("a")
    lost = proxy.swallow_reply(asks(script.WITHDRAW), cut=cut)
    with pytest.raises(Unavailable):  # without an answer at the end the error names no holder
        client.acquire("a", wait=0.2)
    lost.wait()
    assert waiting(private_server, "a") == 0
    holder.release(held)
    again = client.try_acquire("a")
    assert again is not None
    client.release(again)
    tidy(private_server)


def test_a_reply_that_is_lost_while_in_line_keeps_the_place(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient
) -> None:
    """The reply "queued" is lost: a repeated attempt keeps the place and makes no second entry."""
    client, holder = open_client(proxy.url, connect_timeout=5), open_client(private_server.url)
    held = holder.acquire("a")
    lost = proxy.swallow_reply(asks(script.ATTEMPT), cut=True)
    again = proxy.hold_reply(asks(script.ATTEMPT))
    first = start(lambda: client.acquire("a", ttl=2.5))
    lost.wait()
    again.wait().release()  # before the server knows its new connection, it cannot be rung
    _is_served_before_who_comes_now(private_server, client, first, holder, held)


def _one_in_line(
    server: RunningServer, client: Client, holder: Client, *, warm: bool, **options: Any
) -> tuple[Any, Future[Any]]:
    """The holder's lease, and the client's wait for it."""
    if warm:
        client.release(client.acquire("warm"))
    held = holder.acquire("a")
    waiter = start(lambda: client.acquire("a", **options))
    wait_for(lambda: waiting(server, "a") == 1)
    return held, waiter


def _is_served_before_who_comes_now(
    server: RunningServer, client: Client, waiter: Future[Any], holder: Client, held: Any
) -> None:
    second = start(lambda: holder.acquire("a"))
    wait_for(lambda: waiting(server, "a") == 2)
    holder.release(held)
    lease = waiter.result(10)
    assert not second.done()
    client.release(lease)
    last = second.result(10)
    assert last.fence > lease.fence > held.fence
    holder.release(last)
    tidy(server)


@WARM
def test_a_waiter_whose_connection_breaks_keeps_its_place(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, warm: bool
) -> None:
    client, holder = open_client(proxy.url), open_client(private_server.url)
    held, first = _one_in_line(private_server, client, holder, warm=warm, ttl=2.5)
    again = proxy.hold_reply(asks(script.ATTEMPT))
    assert proxy.cut() >= 1
    again.wait().release()
    _is_served_before_who_comes_now(private_server, client, first, holder, held)


@WARM
def test_a_waiter_that_gives_up_while_the_server_is_gone_is_not_handed_the_lock(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, warm: bool
) -> None:
    """The connection of a waiter breaks, and no other can be made: the withdrawal comes when one can."""
    client, holder = open_client(proxy.url), open_client(private_server.url)
    held, waiter = _one_in_line(private_server, client, holder, warm=warm, wait=1.5)
    proxy.refuse()
    proxy.cut()
    assert isinstance(waiter.exception(10), Unavailable)
    proxy.accept()
    wait_for(lambda: waiting(private_server, "a") == 0, within=2.5, what="the withdrawal, well before the place lapses")
    holder.release(held)
    tidy(private_server)
