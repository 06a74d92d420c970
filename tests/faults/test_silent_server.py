"""Fault 6 of the peers: a silent server costs the caller's wait, and no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from holdtight import LockError, Unavailable
from tests.faults.clients import OpenClient, start, waiting
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


@pytest.fixture(params=["stopped", "black hole"])
def silence(
    request: pytest.FixtureRequest, private_server: RunningServer, proxy: Proxy
) -> Iterator[Callable[[], None]]:
    """Makes the server behind proxy.url silent."""
    yield private_server.pause if request.param == "stopped" else proxy.black_hole
    private_server.resume()


def took(work: Callable[[], object]) -> tuple[float, LockError]:
    started = time.monotonic()
    with pytest.raises(LockError) as raised:
        work()
    return time.monotonic() - started, raised.value


@pytest.mark.parametrize("warm", [False, True], ids=["new", "warm"])
def test_a_wait_of_a_second_ends_after_about_a_second(
    proxy: Proxy, open_client: OpenClient, silence: Callable[[], None], warm: bool
) -> None:
    client = open_client(proxy.url)
    if warm:
        client.release(client.acquire("a"))
    silence()
    seconds, error = took(lambda: client.acquire("a", wait=1))
    assert isinstance(error, Unavailable)
    assert 0.9 < seconds < 2


def test_no_wait_ends_within_the_deadline_of_one_reply(
    proxy: Proxy, open_client: OpenClient, silence: Callable[[], None]
) -> None:
    client = open_client(proxy.url)
    client.release(client.acquire("a"))
    silence()
    seconds, error = took(lambda: client.acquire("a", wait=0))
    assert isinstance(error, Unavailable)
    assert seconds < 2.5
    seconds, error = took(lambda: client.try_acquire("a", ttl=0.6))
    assert isinstance(error, Unavailable)
    assert seconds < 1


def test_a_wait_without_end_gives_up_on_a_server_that_never_answered(proxy: Proxy, open_client: OpenClient) -> None:
    client = open_client(proxy.url, connect_timeout=0.5)
    proxy.black_hole()
    seconds, error = took(lambda: client.acquire("a"))
    assert isinstance(error, Unavailable)
    assert seconds < 2.5


def test_a_server_that_falls_silent_while_one_waits_in_line_costs_the_undo_and_no_more(
    private_server: RunningServer, proxy: Proxy, open_client: OpenClient, silence: Callable[[], None]
) -> None:
    """The wait ends, then the second for the undo. Without an answer at the end the error names no holder."""
    client, holder = open_client(proxy.url), open_client(private_server.url)
    held = holder.acquire("a")
    waiter = start(lambda: took(lambda: client.acquire("a", wait=1)))
    wait_for(lambda: waiting(private_server, "a") == 1)
    silence()
    seconds, error = waiter.result(10)
    assert isinstance(error, Unavailable)
    assert seconds < 2.5
    private_server.resume()
    holder.release(held)


def test_what_a_silent_server_was_asked_is_undone_when_it_speaks_again(
    private_server: RunningServer, open_client: OpenClient
) -> None:
    """A stopped server executes what it had received, also from closed sockets: markers refuse it."""
    client, other = open_client(private_server.url), open_client(private_server.url)
    client.release(client.acquire("a"))
    other.release(other.acquire("b"))
    private_server.pause()
    _, error = took(lambda: client.acquire("a", wait=0.3))
    assert isinstance(error, Unavailable)
    private_server.resume()
    other.release(other.acquire("a", wait=2))
    wait_for(lambda: int(private_server.command("PTTL", "ht:{a}")) <= 10_000)
