"""The server behind embedded://: one per user, whichever program starts it and whichever dies, and gone when unused."""

import os
import signal
import stat
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import pytest

from holdtight import Locks, Unavailable
from holdtight.embedded import connecting, ensure
from holdtight.embedded.errors import EmbeddedError
from holdtight.embedded.folder import Home
from holdtight.embedded.shared import IDLE_VARIABLE
from holdtight.embedded.wire import Wire, listening
from tests.embedded.processes import (
    eventually,
    finish,
    gone,
    python,
    running_with,
    said,
    supervisors_of,
    tell,
    zombies_of,
)

CLIENT = """
import sys
from holdtight.embedded import connecting
from holdtight.embedded.folder import home_of_user
from holdtight.embedded.wire import Wire
print("loaded", flush=True)
sys.stdin.readline()
with connecting():
    wire = Wire(str(home_of_user().socket))
print(wire.info("server")["process_id"], flush=True)
while sys.stdin.readline():
    print(wire.ask("PING"), flush=True)
"""


@pytest.fixture
def soon(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, "0.3")


def server_pid(home: Home) -> int:
    with Wire(str(home.socket)) as wire:
        return int(wire.info("server")["process_id"])


def supervisor_pids(home: Home) -> list[int]:
    with Wire(str(home.socket)) as wire:
        fields = wire.ask("CLIENT LIST").split()
    return [int(field.rpartition(":")[2]) for field in fields if field.startswith("name=holdtight-supervisor:")]


def supervisor_pid(home: Home) -> int:
    eventually(lambda: supervisor_pids(home), "the supervisor is connected")
    (pid,) = supervisor_pids(home)
    return pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: gone(pid), f"process {pid} is gone")


def ended(home: Home) -> bool:
    return not home.supervised() and not home.socket.exists()


@contextmanager
def clients(count: int) -> Generator[list["subprocess.Popen[str]"], None, None]:
    """Programs that have loaded everything and wait for a line to connect; all are ended at the end."""
    with ExitStack() as stack:
        programs = [python(CLIENT) for _ in range(count)]
        for program in programs:
            stack.callback(finish, program)
            stack.callback(program.kill)
        for program in programs:
            assert said(program) == "loaded"
        yield programs


def test_everybody_gets_the_same_server(home: Home) -> None:
    url = ensure()
    first = server_pid(home)
    assert url == home.url == f"unix://{home.socket}"
    assert ensure() == url
    assert server_pid(home) == first


def test_twenty_programs_that_start_at_once_get_one_server(home: Home) -> None:
    with clients(20) as programs:
        for program in programs:
            tell(program)
        pids = {said(program) for program in programs}
        assert len(pids) == 1
        assert pids == {str(server_pid(home))}
        assert running_with(str(home.socket)) == [server_pid(home)]
        assert len(supervisor_pids(home)) == 1


def test_killing_a_client_harms_no_other_not_even_if_it_had_started_the_server(home: Home) -> None:
    with clients(4) as programs:
        starter, *others = programs
        for program in programs:
            tell(program)
            assert said(program) == str(server_pid(home))
        starter.kill()
        starter.wait()
        others[0].kill()
        others[0].wait()
        for program in others[1:]:
            tell(program)
            assert said(program) == "PONG"
        assert ensure() == home.url
        assert str(server_pid(home)) in {str(pid) for pid in running_with(str(home.socket))}


def test_a_starter_killed_half_way_leaves_no_second_server(home: Home) -> None:
    with clients(3) as programs:
        for program in programs:
            tell(program)
            eventually(lambda: home.lock.exists() and home.log.exists(), "the server is being started")
            program.kill()
    ensure()
    with connecting():
        assert running_with(str(home.socket)) == [server_pid(home)]
    assert len(supervisor_pids(home)) == 1


def test_a_supervisor_whose_starter_is_gone_before_the_server_is_up_goes_too(home: Home) -> None:
    with home.supervising(deadline=0) as mine:  # so that it has to wait
        assert mine is not None
        program = python(CLIENT)
        assert said(program) == "loaded"
        tell(program)
        eventually(lambda: supervisors_of(home.folder), "a supervisor has been started")
        program.kill()
        finish(program)
    eventually(lambda: not supervisors_of(home.folder), "the supervisor is gone")
    assert running_with(str(home.socket)) == []


def test_ctrl_c_in_one_program_does_not_reach_it(home: Home) -> None:
    ensure()
    for pid in (server_pid(home), supervisor_pid(home)):
        assert os.getsid(pid) != os.getsid(0)
        assert os.getpgid(pid) != os.getpgid(0)


def test_only_its_user_can_reach_it_and_nothing_is_saved(home: Home) -> None:
    ensure()
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.socket.stat().st_mode) == 0o700
    with Wire(str(home.socket)) as wire:
        wire.ask("SET here 1")
        listeners = [value for key, value in wire.info("server").items() if key.startswith("listener")]
        assert [listener.split(",")[0] for listener in listeners] == ["name=unix"]
    assert {path.name for path in home.folder.iterdir()} == {"lock", "log", "valkey.sock"}


def test_a_killed_server_is_replaced_and_its_stale_socket_removed(home: Home) -> None:
    ensure()
    first, supervisor = server_pid(home), supervisor_pid(home)
    kill(first)
    assert ensure() == home.url
    assert server_pid(home) != first
    eventually(lambda: gone(supervisor), "the old supervisor is gone")
    assert len(running_with(str(home.socket))) == 1


def test_killing_the_supervisor_costs_nobody_anything(home: Home) -> None:
    ensure()
    first, supervisor = server_pid(home), supervisor_pid(home)
    with Wire(str(home.socket)) as holder:
        holder.ask("SET held 1 PX 60000")
        kill(supervisor)
        assert holder.ask("GET held") == "1"
        assert ensure() == home.url
        assert holder.ask("GET held") == "1"
    assert server_pid(home) == first
    assert supervisor_pid(home) != supervisor


@pytest.mark.usefixtures("soon")
def test_a_server_taken_over_by_a_new_supervisor_ends_by_itself_too(home: Home) -> None:
    with connecting(), Wire(str(home.socket)):
        server = server_pid(home)
        kill(supervisor_pid(home))
    ensure()
    eventually(lambda: ended(home), "the server has ended")
    assert gone(server)


def test_both_killed_the_next_client_starts_anew(home: Home) -> None:
    ensure()
    first, supervisor = server_pid(home), supervisor_pid(home)
    kill(supervisor)
    kill(first)
    assert home.socket.exists()
    assert ensure() == home.url
    assert server_pid(home) != first


def test_a_frozen_server_is_never_taken_for_a_dead_one(home: Home) -> None:
    ensure()
    first, supervisor = server_pid(home), supervisor_pid(home)
    os.kill(first, signal.SIGSTOP)
    try:
        kill(supervisor)
        assert ensure() == home.url
        assert running_with(str(home.socket)) == [first]
    finally:
        os.kill(first, signal.SIGCONT)
    assert server_pid(home) == first


def test_signals_that_end_programs_leave_the_supervisor_to_its_duty(home: Home) -> None:
    ensure()
    supervisor = supervisor_pid(home)
    for deadly in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(supervisor, deadly)
    server = server_pid(home)
    os.kill(server, signal.SIGTERM)
    eventually(lambda: gone(server) and gone(supervisor), "both have ended")


def test_a_supervisor_whose_connection_is_cut_connects_again(home: Home) -> None:
    ensure()
    supervisor = supervisor_pid(home)
    with Wire(str(home.socket)) as wire:
        wire.ask("CLIENT KILL TYPE normal SKIPME yes")
    eventually(lambda: supervisor_pids(home) == [supervisor], "it is connected again")


@pytest.mark.usefixtures("soon")
def test_unused_it_ends_and_the_next_client_starts_a_new_one(home: Home) -> None:
    with connecting():
        first, supervisor = server_pid(home), supervisor_pid(home)
    eventually(lambda: ended(home), "the server has ended")
    assert gone(first)
    eventually(lambda: gone(supervisor), "the supervisor has ended")
    with connecting():
        assert server_pid(home) != first


@pytest.mark.usefixtures("soon")
def test_it_does_not_end_while_a_client_is_connected(home: Home) -> None:
    with connecting():
        wire = Wire(str(home.socket))
    with wire:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert wire.ask("PING") == "PONG"
            time.sleep(0.05)
    eventually(lambda: ended(home), "the server has ended")


@pytest.mark.usefixtures("soon")
def test_it_does_not_end_before_the_last_lock_has_expired(home: Home) -> None:
    with connecting(), Wire(str(home.socket)) as wire:
        started = time.monotonic()
        wire.ask("SELECT 3")
        wire.ask("SET held 1 PX 1500")
    eventually(lambda: ended(home), "the server has ended")
    assert time.monotonic() - started >= 1.5


@pytest.mark.usefixtures("soon")
def test_it_does_not_end_under_a_client_that_is_just_connecting(home: Home) -> None:
    with connecting():
        first = server_pid(home)
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert listening_without_counting(home)
            time.sleep(0.05)
        assert server_pid(home) == first
    eventually(lambda: ended(home), "the server has ended")


def listening_without_counting(home: Home) -> bool:
    """Checks without a connection that counts as use, which would keep the server running."""
    return home.supervised() and home.socket.exists()


@pytest.mark.usefixtures("soon")
def test_none_of_it_leaves_a_zombie(home: Home) -> None:
    seen: list[int] = []
    for _ in range(3):
        with connecting(), Wire(str(home.socket)):
            seen += [server_pid(home), supervisor_pid(home)]
        kill(seen[-2])
        ensure()
        eventually(lambda: ended(home), "the server has ended")
    eventually(lambda: all(gone(pid) for pid in seen), "every process is gone for good")
    assert zombies_of(os.getpid()) == []


def test_if_the_socket_is_removed_the_server_ends_rather_than_go_on_beside_another(home: Home) -> None:
    ensure()
    first = server_pid(home)
    home.socket.unlink()
    assert ensure() == home.url
    assert gone(first)
    assert running_with(str(home.socket)) == [server_pid(home)]


def test_if_the_whole_folder_is_removed_the_old_server_ends(home: Home) -> None:
    ensure()
    first, supervisor = server_pid(home), supervisor_pid(home)
    for path in home.folder.iterdir():
        path.unlink()
    home.folder.rmdir()
    assert ensure() == home.url
    assert server_pid(home) != first
    eventually(lambda: gone(first) and gone(supervisor), "the old ones are gone")
    assert listening(str(home.socket))


FORKS_WHILE_CONNECTING = """
import os, sys
from holdtight.embedded import connecting
with connecting():
    child = os.fork()
    if not child:
        sys.stdin.readline()
        os._exit(0)
print("connected", flush=True)
os.waitpid(child, 0)
"""


def test_a_child_forked_while_connecting_does_not_keep_the_meeting_point_locked(home: Home) -> None:
    program = python(FORKS_WHILE_CONNECTING)
    assert said(program) == "connected"
    with home.locked(exclusive=True, deadline=0):
        pass
    tell(program)
    assert finish(program) == 0


def test_a_meeting_point_held_for_too_long_is_an_error_and_not_a_hang(home: Home) -> None:
    with home.locked(exclusive=True, deadline=0), pytest.raises(EmbeddedError, match="held by another process"):
        ensure(within=0.05)


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "inf"])
def test_a_wrong_idle_time_is_told_before_anything_is_started(
    home: Home, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(IDLE_VARIABLE, text)
    with pytest.raises(ValueError, match=IDLE_VARIABLE):
        ensure()
    assert not home.supervised()


def test_a_server_that_cannot_start_is_told_with_its_log(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdtight.embedded.shared.find_binary", lambda: "/bin/false")
    with pytest.raises(EmbeddedError, match="ended while starting") as caught:
        ensure()
    assert str(caught.value).endswith("See: python -m holdtight explain CONNECTION_LOST")
    with Locks("embedded://", connect_timeout=0.1) as locks, pytest.raises(Unavailable) as quoted:
        locks.lock("a").acquire()
    assert "ended while starting" in str(quoted.value)
    assert str(quoted.value).count("holdtight explain") == 1
    assert str(quoted.value).endswith("then try again. See: python -m holdtight explain CONNECTION_LOST")
    eventually(lambda: not home.supervised(), "the supervisor is gone")
    assert zombies_of(os.getpid()) == []
