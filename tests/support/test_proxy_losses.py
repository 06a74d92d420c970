"""The proxy loses or holds a single request, reply or message, and counts the others right."""

from __future__ import annotations

import pytest

from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.raw import RawClient
from tests.support.servers import RunningServer
from tests.support.through import connect, silent, was_reset


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


def test_a_request_is_held_back_and_comes_in_the_end(proxy: Proxy, client: RawClient, server: RunningServer) -> None:
    held = proxy.hold_request(b"INCR")
    client.send("INCR", "n")
    client.send("ECHO", "behind it")
    held.wait()
    assert silent(client)
    assert server.command("GET", "n") is None
    held.release()
    assert [client.read(), client.read()] == [1, "behind it"]


@pytest.mark.parametrize("cut", [False, True])
def test_a_request_that_was_held_back_outlives_its_client(proxy: Proxy, server: RunningServer, cut: bool) -> None:
    held = proxy.hold_request(b"INCR", cut=cut)
    with connect(proxy) as client:
        client.send("INCR", "n")
        held.wait()
        if cut:
            assert was_reset(client)
    assert server.command("GET", "n") is None
    held.release()
    wait_for(lambda: server.command("GET", "n") == "1")
    with connect(proxy) as other:
        assert other.call("PING") == "PONG"
