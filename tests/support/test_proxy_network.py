"""The proxy as a bad network: late, in pieces, paused, cut, refusing, a black hole; and healed."""

from __future__ import annotations

import threading
import time

import pytest

from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.raw import RawClient
from tests.support.servers import RunningServer
from tests.support.through import connect, silent, was_reset


def test_each_direction_can_be_late(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    proxy.delay(replies=0.15)
    began = time.monotonic()
    client.send("INCR", "n")
    server.wait_for("GET", "n", be="1", within=0.14)
    assert client.read() == 1
    assert time.monotonic() - began >= 0.15
    proxy.delay(requests=0.15)
    began = time.monotonic()
    client.send("INCR", "n")
    proxy.wait_for_request(b"INCR", times=2)
    assert server.command("GET", "n") == "1"
    assert client.read() == 2
    assert time.monotonic() - began >= 0.15
    proxy.delay()
    assert client.call("PING") == "PONG"


def test_what_is_late_stays_in_order(proxy: Proxy, client: RawClient) -> None:
    proxy.delay(replies=0.1)
    client.send("ECHO", "1")
    proxy.wait_for_request(b"ECHO")
    wait_for(lambda: proxy.count() == 1)
    proxy.delay()
    client.send("ECHO", "2")
    assert [client.read(), client.read()] == ["1", "2"]


def test_replies_can_arrive_byte_by_byte(proxy: Proxy, client: RawClient) -> None:
    proxy.split_replies(0.01)
    client.send("ECHO", "hello")
    pieces: list[bytes] = []
    while b"".join(pieces) != b"$5\r\nhello\r\n":
        pieces.append(client.socket.recv(100))
    assert len(pieces) > 2  # a machine that is busy may read some together
    proxy.split_replies(None)
    assert client.call("ECHO", "hello") == "hello"


def test_a_paused_direction_loses_nothing(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    proxy.pause("replies")
    client.send("INCR", "n")
    server.wait_for("GET", "n", be="1")
    assert silent(client)
    proxy.resume("replies")
    assert client.read() == 1

    proxy.pause("requests")
    client.send("INCR", "n")
    client.close()
    assert server.command("GET", "n") == "1"
    proxy.resume("requests")
    server.wait_for("GET", "n", be="2")


def test_a_paused_proxy_is_idle(proxy: Proxy, client: RawClient) -> None:
    client.call("PING")
    proxy.pause("requests")
    proxy.pause("replies")
    client.send("PING")
    client.close()
    burnt = time.process_time()
    threading.Event().wait(0.2)
    assert time.process_time() - burnt < 0.1


def test_connections_are_cut_by_reset(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    before = len(server.clients())
    client.call("PING")
    with connect(proxy) as other:
        other.call("PING")
        assert proxy.cut() == 2
        assert was_reset(client)
        assert was_reset(other)
    assert proxy.connections == 0
    wait_for(lambda: len(server.clients()) < before + 2)
    with connect(proxy) as another:
        assert another.call("PING") == "PONG"


def test_new_connections_are_refused_and_taken_again(proxy: Proxy, client: RawClient) -> None:
    client.call("PING")
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    assert client.call("PING") == "PONG", "those that are there stay"
    proxy.accept()
    with connect(proxy) as other:
        assert other.call("PING") == "PONG"


def test_a_black_hole_swallows_everything(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    client.call("PING")
    proxy.black_hole()
    with connect(proxy) as other:
        for each in (client, other):
            each.send("INCR", "n")
        proxy.wait_for_request(b"INCR", times=2)
        assert silent(client)
        assert silent(other)
        assert server.command("GET", "n") is None
        proxy.heal()
        assert was_reset(client)
        assert was_reset(other)
    with connect(proxy) as another:
        assert another.call("INCR", "n") == 1


def test_a_black_hole_tells_the_server_nothing(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    client.call("CLIENT", "SETNAME", "lost")

    def there() -> bool:
        return "lost" in {each["name"] for each in server.clients()}

    proxy.black_hole()
    client.close()
    assert proxy.connections == 1
    assert there()
    proxy.heal()
    wait_for(lambda: not there())


def test_heal_undoes_everything(proxy: Proxy, client: RawClient) -> None:
    held = proxy.hold_reply(b"ECHO")
    client.send("ECHO", "x")
    held.wait()
    unused = proxy.swallow_reply(b"PING")
    proxy.delay(requests=1, replies=1)
    proxy.split_replies()
    proxy.pause("requests")
    proxy.pause("replies")
    proxy.refuse()
    proxy.heal()
    assert client.read() == "x"
    assert client.call("PING") == "PONG"
    assert not unused.done
    with connect(proxy) as other:
        assert other.call("PING") == "PONG"
