"""embedded.Server: a private server that never outlives its owner and never harms another."""

import gc
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdtight.embedded import Server, private
from holdtight.embedded.binary import find_binary
from holdtight.embedded.errors import EmbeddedError
from holdtight.embedded.wire import Refused, Wire, listening
from tests.embedded.processes import eventually, finish, gone, python, said, tell, zombies_of

OWNER = """
import sys
from holdtight.embedded import Server
server = Server()
print(server.pid, server.port, server._log.parent, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def wire(server: Server) -> Wire:
    parts = urlsplit(server.url)
    return Wire(parts.path if parts.scheme == "unix" else ("127.0.0.1", server.port))


def ask(server: Server, request: str) -> str:
    with wire(server) as connection:
        return connection.ask(request)


def test_it_answers_at_its_url_and_is_empty(server: Server) -> None:
    assert server.url == f"redis://127.0.0.1:{server.port}/0"
    assert ask(server, "PING") == "PONG"
    assert ask(server, "DBSIZE") == "0"
    with wire(server) as connection:
        assert connection.info("server")["process_id"] == str(server.pid)


def test_two_servers_know_nothing_of_each_other(server: Server) -> None:
    with Server() as other:
        ask(server, "SET here 1")
        assert other.port != server.port
        assert ask(other, "DBSIZE") == "0"


def test_it_listens_on_loopback_only_and_saves_nothing(server: Server) -> None:
    with wire(server) as connection:
        connection.ask("SET here 1")
        listeners = connection.info("server")
        assert "bind=127.0.0.1" in listeners["listener0"]
        assert "listener1" not in listeners
        assert connection.info("persistence")["aof_enabled"] == "0"
    # Without save points there is nothing to dump at the end either.
    assert [path.name for path in server._log.parent.iterdir()] == ["log"]


def test_it_can_be_had_on_a_unix_socket_alone() -> None:
    with Server(tcp=False) as server:
        assert server.url.startswith("unix:///")
        assert server.port == 0
        assert ask(server, "PING") == "PONG"


def test_an_overlong_temporary_folder_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with Server(tcp=False) as server:
        assert ask(server, "PING") == "PONG"
    assert list(long.iterdir()) == []


def test_restart_keeps_the_address_and_loses_the_data(server: Server) -> None:
    before, url = server.pid, server.url
    ask(server, "SET here 1")
    server.restart()
    assert server.url == url
    assert server.pid not in (0, before)
    assert ask(server, "DBSIZE") == "0"


def test_a_killed_server_is_down_until_it_is_restarted(server: Server) -> None:
    server.kill()
    assert server.pid == 0
    assert not listening(("127.0.0.1", server.port))
    server.restart()
    assert ask(server, "PING") == "PONG"


def test_a_paused_server_takes_requests_and_answers_them_when_resumed(server: Server) -> None:
    with Wire(("127.0.0.1", server.port), timeout=0.2) as connection:
        server.pause()
        with pytest.raises(TimeoutError):
            connection.ask("SET here 1")
    assert listening(("127.0.0.1", server.port))
    server.resume()
    eventually(lambda: ask(server, "DBSIZE") == "1", "what was sent while it was paused has been done")


def test_a_paused_server_can_be_closed() -> None:
    with Server() as server:
        pid = server.pid
        server.pause()
    assert gone(pid)


def test_close_leaves_nothing_and_may_be_repeated() -> None:
    server = Server()
    pid, folder = server.pid, server._log.parent
    server.close()
    server.close()
    assert gone(pid)
    assert not folder.exists()
    assert zombies_of(os.getpid()) == []
    with pytest.raises(ValueError, match="closed"):
        server.restart()


def test_a_server_nobody_refers_to_any_more_is_ended() -> None:
    server = Server()
    pid = server.pid
    del server
    gc.collect()
    eventually(lambda: gone(pid), "the server is gone")


def test_killed_from_outside_it_is_no_zombie(server: Server) -> None:
    pid = server.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: gone(pid), "the server is gone, not a zombie")
    assert server.pid == 0
    assert zombies_of(os.getpid()) == []


def test_it_dies_with_an_owner_that_is_killed() -> None:
    owner = python(OWNER)
    pid, _, folder = said(owner).split()
    owner.kill()
    finish(owner)
    eventually(lambda: gone(int(pid)), "the server is gone")
    eventually(lambda: not Path(folder).exists(), "its folder is gone")


def test_it_dies_with_an_owner_that_forgets_it() -> None:
    owner = python(OWNER)
    pid, _, folder = said(owner).split()
    assert finish(owner) == 0
    assert gone(int(pid))
    assert not Path(folder).exists()


def test_it_outlives_the_thread_that_started_it() -> None:
    started: list[Server] = []
    thread = threading.Thread(target=lambda: started.append(Server()))
    thread.start()
    thread.join()
    with started[0] as server:
        assert ask(server, "PING") == "PONG"


def test_ctrl_c_in_the_terminal_does_not_reach_it(server: Server) -> None:
    assert os.getsid(server.pid) != os.getsid(0)


FORKER = """
import os, sys
from holdtight.embedded import Server
server = Server()
print(server.pid, server.port, flush=True)
child = os.fork()
if not child:
    server.close()          # not the child's to close
    try:
        server.kill()
    except ValueError:
        os.write(1, b"refused\\n")  # in one piece: the parent writes to the same pipe
    sys.stdin.readline()
    sys.exit()              # runs exit handlers too
os.write(1, b"parent\\n")
os.waitpid(child, 0)
print(server.pid, flush=True)
"""


def test_a_forked_child_does_not_take_it_along() -> None:
    forker = python(FORKER)
    pid = said(forker).split()[0]
    assert {said(forker), said(forker)} == {"parent", "refused"}
    tell(forker)
    assert said(forker) == pid
    assert finish(forker) == 0
    assert gone(int(pid))


def test_a_forked_child_that_lives_on_does_not_keep_it_alive() -> None:
    forker = python(FORKER)
    pid = said(forker).split()[0]
    assert {said(forker), said(forker)} == {"parent", "refused"}
    forker.kill()  # the child still waits for a line
    eventually(lambda: gone(int(pid)), "the server is gone")
    finish(forker)


def test_a_port_that_another_process_takes_first_costs_only_another_try(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = private._free_port()
    ports = iter([server.port, server.port, free])
    monkeypatch.setattr(private, "_free_port", lambda: next(ports))
    with Server() as other:
        assert other.port == free
        assert other.pid != server.pid
        assert ask(other, "PING") == "PONG"


def test_a_server_that_asks_for_a_password_counts_as_up() -> None:
    with Server(args=["--requirepass", "secret"]) as server, wire(server) as connection:
        with pytest.raises(Refused, match="NOAUTH"):
            connection.ask("DBSIZE")
        assert connection.ask("AUTH secret") == "OK"
        server.restart()


def test_the_environment_can_be_added_to(server: Server) -> None:
    with Server(env={"HOLDTIGHT_PROBE": "1"}) as other:
        assert ask(other, "PING") == "PONG"


def test_wrong_arguments_are_told_in_the_servers_own_words() -> None:
    with pytest.raises(EmbeddedError, match=r"(?s)ended while starting.*bogus"):
        Server(args=["--bogus"])
    assert zombies_of(os.getpid()) == []


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-server"):
        Server(binary=tmp_path / "no-such-server")


def test_another_program_can_be_named() -> None:
    with Server(binary=find_binary()) as server:
        assert ask(server, "PING") == "PONG"
