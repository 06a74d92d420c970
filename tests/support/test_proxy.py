"""The proxy passes on what is said, counts it, and leaves nothing behind."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.raw import RawClient
from tests.support.servers import RunningServer
from tests.support.through import connect, was_reset


def test_it_passes_on_what_is_said_and_counts_it(proxy: Proxy, client: RawClient) -> None:
    assert client.call("SET", "a", "x" * 200_000) == "OK"
    assert client.call("GET", "a") == "x" * 200_000
    for n in range(20):
        client.send("INCR", "n")
        assert proxy.wait_for_request(b"INCR", times=n + 1).index == n + 2
    assert [client.read() for _ in range(20)] == list(range(1, 21))
    assert proxy.count() == 22
    assert proxy.count(b"INCR") == 20
    assert proxy.count(lambda raw: b"GET" in raw) == 1
    assert proxy.requests[1].raw == b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
    assert proxy.requests[1].words == [b"GET", b"a"]
    proxy.clear()
    assert proxy.requests == []
    client.call("PING")
    assert proxy.requests[0].index == 0


def test_connections_are_told_apart(proxy: Proxy, client: RawClient) -> None:
    with connect(proxy) as other:
        client.call("PING", "1")
        other.call("PING", "2")
        assert [(each.connection, each.words[1]) for each in proxy.requests] == [(0, b"1"), (1, b"2")]
        assert proxy.connections == 2
    wait_for(lambda: proxy.connections == 1)


def test_both_sides_learn_of_an_orderly_end(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    client.send("SET", "a", "b")
    client.socket.shutdown(socket.SHUT_WR)
    assert client.read() == "OK"
    assert client.socket.recv(1) == b""
    wait_for(lambda: proxy.connections == 0)
    client.close()
    with connect(proxy) as other:
        number = str(other.call("CLIENT", "ID"))
        server.command("CLIENT", "KILL", "ID", number)
        assert other.socket.recv(1) == b""
    assert server.command("GET", "a") == "b"


def test_a_server_that_is_not_there_is_seen_as_such() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with (
            Proxy(nobody.getsockname()[1]) as proxy,
            pytest.raises(ConnectionResetError),
            connect(proxy) as client,
        ):
            client.read()


def test_what_is_not_resp_passes() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Proxy(listener.getsockname()[1]) as proxy,
        connect(proxy) as client,
    ):
        client.socket.sendall(b"\x16\x03\x01 no RESP, no line end")
        server, _ = listener.accept()
        with server:
            assert server.recv(100) == b"\x16\x03\x01 no RESP, no line end"
            server.sendall(b"*3")
            assert client.socket.recv(100) == b"*3"
        assert proxy.count() == 0


def test_waiting_in_vain_says_for_what(proxy: Proxy, client: RawClient) -> None:
    client.call("PING")
    with pytest.raises(AssertionError, match=r"no request matched b'GET'; there were \[\[b'PING'\]\]"):
        proxy.wait_for_request(b"GET", within=0.01)
    with pytest.raises(AssertionError, match="did not come"):
        proxy.swallow_reply(b"GET").wait(0.01)


def test_its_thread_ends_with_it(server: RunningServer) -> None:
    def threads(proxy: Proxy) -> int:
        return sum(thread.name == f"proxy-{proxy.port}" for thread in threading.enumerate())

    with Proxy(server.port) as proxy, connect(proxy) as client:
        assert client.call("PING") == "PONG"
        assert threads(proxy) == 1
        proxy.close()
        assert was_reset(client)
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
    assert threads(proxy) == 0


def test_many_clients_at_once(proxy: Proxy, server: RunningServer) -> None:
    def work() -> None:
        with connect(proxy) as client:
            for _ in range(50):
                client.call("INCR", "n")

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.command("GET", "n") == "800"
    assert proxy.count(b"INCR") == 800
