from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.raw import RawClient
from tests.support.servers import RunningServer

SOON = 0.05
"""Long enough for something that happens at once, short enough to wait for what must not happen."""


@pytest.fixture
def proxy(server: RunningServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[RawClient]:
    with connect(proxy) as client:
        yield client


def connect(proxy: Proxy, timeout: float = 10) -> RawClient:
    return RawClient(("127.0.0.1", proxy.port), timeout)


def silent(client: RawClient) -> bool:
    """Nothing arrives soon."""
    client.socket.settimeout(SOON)
    try:
        client.socket.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        client.socket.settimeout(10)
    return False


def was_reset(client: RawClient) -> bool:
    try:
        client.socket.recv(1)
    except ConnectionResetError:
        return True
    return False


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


def test_exactly_one_reply_is_swallowed(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    lost = proxy.swallow_reply(b"INCR")
    assert client.call("PING") == "PONG"
    assert not lost.done
    client.send("INCR", "n")
    client.send("INCR", "n")
    assert client.read() == 2, "the reply to the first is lost, that to the second is not"
    lost.wait()
    assert lost.reply == b":1\r\n"
    assert lost.request is not None
    assert lost.request.words == [b"INCR", b"n"]
    assert client.call("INCR", "n") == 3
    assert server.command("GET", "n") == "3"


def test_a_reply_is_swallowed_by_index_and_by_predicate(proxy: Proxy, client: RawClient) -> None:
    client.call("PING")
    proxy.swallow_reply(2)
    proxy.swallow_reply(lambda raw: raw.endswith(b"$1\r\nd\r\n"))
    for word in "abcde":
        client.send("ECHO", word)
    assert [client.read() for _ in range(3)] == ["a", "c", "e"]
    assert silent(client)


def test_a_long_reply_is_swallowed_whole(proxy: Proxy, client: RawClient) -> None:
    client.call("MSET", *(word for n in range(2000) for word in (f"key:{n}", "x" * 100)))
    lost = proxy.swallow_reply(b"MGET")
    client.send("MGET", *(f"key:{n}" for n in range(2000)))
    assert client.call("PING") == "PONG"
    assert lost.wait().reply.count(b"x") == 200_000


def test_a_reply_can_be_lost_with_its_connection(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    lost = proxy.swallow_reply(b"INCR", cut=True)
    client.send("INCR", "n")
    lost.wait()
    assert was_reset(client)
    assert server.command("GET", "n") == "1"
    with connect(proxy) as other:
        assert other.call("INCR", "n") == 2


def test_a_request_can_be_lost(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    proxy.swallow_request(b"INCR")
    client.send("INCR", "n")
    assert client.call("PING") == "PONG"
    assert server.command("GET", "n") is None
    lost = proxy.swallow_request(b"INCR", cut=True)
    client.send("INCR", "n")
    lost.wait()
    assert was_reset(client)
    assert server.command("GET", "n") is None


def test_a_reply_can_be_held_and_let_go(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    held = proxy.hold_reply(b"INCR")
    client.send("INCR", "n")
    client.send("PING")
    held.wait()
    assert server.command("GET", "n") == "1"
    assert silent(client)
    held.release()
    assert client.read() == 1
    assert client.read() == "PONG"


def test_pushed_messages_are_no_replies(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    client.call("HELLO", "3")
    client.send("SUBSCRIBE", "a", "b")
    assert [client.read()[:2] for _ in range(2)] == [["subscribe", "a"], ["subscribe", "b"]]
    held = proxy.hold_reply(b"INCR")
    server.command("PUBLISH", "a", "one")
    assert client.read() == ["message", "a", "one"]
    client.send("INCR", "n")
    held.wait()
    server.command("PUBLISH", "b", "two")
    assert silent(client)
    held.release()
    assert client.read() == 1
    assert client.read() == ["message", "b", "two"]
    lost = proxy.swallow_reply(b"INCR")
    client.send("INCR", "n")
    lost.wait()
    server.command("PUBLISH", "b", "three")
    assert client.read() == ["message", "b", "three"]


def test_replies_are_counted_right_behind_a_subscription(proxy: Proxy, client: RawClient) -> None:
    """As a client greets: all in one write, and the subscription is confirmed by a message."""
    lost = proxy.swallow_reply(b"ECHO")
    client.socket.sendall(b"HELLO 3\r\nSUBSCRIBE inbox\r\nECHO x\r\nPING\r\n")
    assert client.read()["proto"] == 3
    assert client.read() == ["subscribe", "inbox", 1]
    assert client.read() == "PONG"
    assert lost.wait().reply == b"$1\r\nx\r\n"


def test_a_confirmation_of_a_subscription_can_be_lost(proxy: Proxy, client: RawClient) -> None:
    client.call("HELLO", "3")
    proxy.swallow_reply(b"SUBSCRIBE")
    client.send("SUBSCRIBE", "a", "b")
    assert client.call("PING") == "PONG"
    client.send("UNSUBSCRIBE")
    assert {client.read()[1] for _ in range(2)} == {"a", "b"}
    assert client.call("ECHO", "x") == "x"


def test_a_subscriber_of_resp2(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    client.send("SUBSCRIBE", "a")
    assert client.read() == ["subscribe", "a", 1]
    server.command("PUBLISH", "a", "m")
    assert client.read() == ["message", "a", "m"]
    lost = proxy.swallow_reply(b"PING")
    client.send("PING", "x")
    lost.wait()
    client.send("PING", "y")
    assert client.read() == ["pong", "y"]


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
    proxy.split_replies(0.002)
    client.send("ECHO", "hello")
    pieces: list[bytes] = []
    while b"".join(pieces) != b"$5\r\nhello\r\n":
        pieces.append(client.socket.recv(100))
    assert len(pieces) > 5
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
    before = threading.active_count()
    with Proxy(server.port) as proxy, connect(proxy) as client:
        assert client.call("PING") == "PONG"
        assert threading.active_count() == before + 1
        proxy.close()
        assert was_reset(client)
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
    assert threading.active_count() == before


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
