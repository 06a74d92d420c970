from __future__ import annotations

import socket
import ssl

import pytest

from tests.support.certificates import Certificates
from tests.support.leftovers import alive
from tests.support.processes import wait_for
from tests.support.raw import RawClient, ServerSaid
from tests.support.servers import FLAVOURS, Flavour, RunningServer, StartServer, free_port, start


def test_each_flavour_is_the_version_it_says(server: RunningServer) -> None:
    kind, _, version = server.flavour.name.partition("-")
    assert server.version.startswith(version)
    assert kind in server.log().lower()


def test_replies_come_decoded(server: RunningServer) -> None:
    assert server.command("SET", "ключ", "wert") == "OK"
    assert server.command("GET", "ключ") == "wert"
    assert server.command("GET", "no such") is None
    assert server.command("INCRBY", "n", 7) == 7
    assert server.command("MGET", "ключ", "n") == ["wert", "7"]
    server.command("SET", b"\xff", b"\xfe")
    assert server.command("GET", "\udcff") == "\udcfe"
    assert server.keys() == sorted(["ключ", "n", "\udcff"])
    assert server.keys("n*") == ["n"]
    with pytest.raises(ServerSaid, match="wrong number of arguments"):
        server.command("GET")
    server.flushall()
    assert server.keys() == []


def test_keys_finds_all_of_many(server: RunningServer) -> None:
    with server.connect() as client:
        client.call("MSET", *(word for n in range(3000) for word in (f"k{n:04}", "")))
    assert server.keys() == [f"k{n:04}" for n in range(3000)]


def test_clients_are_listed_without_the_one_that_asks(server: RunningServer) -> None:
    earlier = {each["id"] for each in server.clients()}  # the keeper may still close connections of earlier tests
    with server.connect() as client:
        client.call("CLIENT", "SETNAME", "me")
        own = str(client.call("CLIENT", "ID"))
        assert [each["name"] for each in server.clients() if each["id"] not in earlier] == ["me"]
    wait_for(lambda: all(each["id"] != own for each in server.clients()), what="the connection to be gone")


def test_wait_for_asks_until_the_answer_is_right(server: RunningServer) -> None:
    server.command("SET", "short", "lived", "PX", 30)
    server.wait_for("EXISTS", "short", be=0)
    with pytest.raises(AssertionError, match="EXISTS"):
        server.wait_for("EXISTS", "short", be=1, within=0)


@pytest.mark.parametrize("private_server", FLAVOURS, indirect=True, ids=repr)
def test_a_restarted_server_is_empty_and_where_it_was(private_server: RunningServer) -> None:
    url, pid = private_server.url, private_server.pid
    private_server.command("SET", "a", "b")
    private_server.restart()
    assert private_server.keys() == []
    assert private_server.url == url
    assert private_server.pid != pid
    assert not alive(pid)


def test_killed_and_stopped_servers_are_gone(private_server: RunningServer) -> None:
    client = private_server.connect()
    private_server.kill()
    assert not private_server.running
    with pytest.raises(ConnectionError):
        client.call("PING")
    client.close()
    with pytest.raises(ConnectionRefusedError):
        private_server.command("PING")
    private_server.restart()
    assert private_server.command("PING") == "PONG"
    private_server.pause()
    private_server.stop()
    assert not private_server.running


def test_a_paused_server_hears_and_does_not_answer(private_server: RunningServer) -> None:
    with private_server.connect(timeout=0.1) as client:
        private_server.pause()
        client.send("INCR", "n")
        with pytest.raises(TimeoutError):
            client.read()
        private_server.resume()
        client.socket.settimeout(10)
        assert client.read() == 1


def test_a_password_is_asked_for(start_server: StartServer) -> None:
    server = start_server(password="secret")
    assert server.command("PING") == "PONG"
    with RawClient(("127.0.0.1", server.port)) as client, pytest.raises(ServerSaid, match="NOAUTH"):
        client.call("PING")
    assert "secret" in server.url
    server.restart()
    assert server.command("PING") == "PONG"


def test_acl_users_may_do_what_they_may(private_server: RunningServer) -> None:
    private_server.add_user("reader", "pw", "+get", "~*")
    with private_server.connect() as client:
        client.call("AUTH", "reader", "pw")
        assert client.call("GET", "a") is None
        with pytest.raises(ServerSaid, match="NOPERM"):
            client.call("SET", "a", "b")


def test_a_unix_socket(start_server: StartServer) -> None:
    server = start_server(unix=True)
    assert server.socket_path is not None
    with RawClient(server.socket_path) as client:
        assert client.call("PING") == "PONG"
    assert server.unix_url == f"unix://{server.socket_path}"


def test_tls_with_certificates_that_are_checked(tls_server: RunningServer, certificates: Certificates) -> None:
    assert tls_server.tls_port is not None
    context = ssl.create_default_context(cafile=certificates.ca)
    context.load_cert_chain(certificates.client_cert, certificates.client_key)
    for name in ("localhost", "127.0.0.1"):
        with (
            socket.create_connection(("127.0.0.1", tls_server.tls_port), 10) as plain,
            context.wrap_socket(plain, server_hostname=name) as secure,
        ):
            secure.sendall(b"PING\r\n")
            assert secure.recv(100) == b"+PONG\r\n"
    with (
        socket.create_connection(("127.0.0.1", tls_server.tls_port), 10) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(plain, server_hostname="elsewhere")


def test_options_of_the_command_line_are_passed_on(start_server: StartServer) -> None:
    server = start_server("--maxmemory", "10mb", "--maxmemory-policy", "noeviction")
    assert server.command("CONFIG", "GET", "maxmemory") == ["maxmemory", str(10 * 1024**2)]


def test_a_server_that_cannot_start_says_why(start_server: StartServer) -> None:
    with pytest.raises(RuntimeError, match=r"does not start:(.|\n)*no-such-option"):
        start_server("--no-such-option", "1")


def test_a_port_that_is_taken_is_not_used(start_server: StartServer) -> None:
    first = start_server()
    with pytest.raises(RuntimeError, match="does not start"):
        start_server(port=first.port)
    assert first.command("PING") == "PONG"


def test_a_flavour_that_is_not_here_says_what_it_needs() -> None:
    absent = Flavour("redis-99", "99.", "Debian's redis-server (99)", lambda: None)
    other = Flavour("redis-99", "99.", "Debian's redis-server (99)", FLAVOURS[0].find)
    for flavour in (absent, other):
        assert flavour.missing() == "needs Debian's redis-server (99)"
        with pytest.raises(RuntimeError, match=r"needs Debian's redis-server \(99\)"):
            start(flavour)


def test_folders_go_with_their_servers(start_server: StartServer) -> None:
    server = start_server()
    assert server.folder.exists()
    server.close()
    assert not server.folder.exists()
    assert not server.running


def test_free_ports_are_below_those_for_clients() -> None:
    assert all(10_000 <= free_port() < 30_000 for _ in range(50))
