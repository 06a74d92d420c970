"""`holdtight run` and `holdtight sem`: what the command gets, and what the caller gets back."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from holdtight import Locks
from holdtight.cli.main import run_cli
from holdtight.cli.options import Common
from tests.cli.conftest import Cli
from tests.support.processes import wait_for
from tests.support.servers import RunningServer, StartServer


def test_the_command_has_its_own_exit_code_and_knows_what_it_runs_under(cli: Cli, locks: Locks) -> None:
    fence = locks.lock("nightly").acquire()
    fence.release()
    run = cli("run", "nightly", "--", "sh", "-c", "echo $HOLDTIGHT_NAME $HOLDTIGHT_OWNER $HOLDTIGHT_FENCE; exit 7")
    name, owner, later = run.wait_line().split()
    assert (name, len(owner)) == ("nightly", 32)
    assert int(later) > fence.fence
    assert run.wait() == 7
    assert run.errors == ""
    assert locks.inspect("nightly").holders == ()


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        (["/does/not/exist"], 127, "holdtight: /does/not/exist: No such file or directory\n"),
        (["/etc/passwd"], 126, "holdtight: /etc/passwd: Permission denied\n"),
        (["sh", "-c", "kill -9 $$"], 137, ""),
    ],
)
def test_a_command_that_cannot_run_or_is_killed(cli: Cli, command: list[str], code: int, text: str) -> None:
    run = cli("run", "nightly", "--", *command)
    assert run.wait() == code
    assert run.errors == text


def test_a_held_lock_is_75_or_what_was_asked_for_and_names_the_holder(cli: Cli, locks: Locks) -> None:
    with locks.lock("nightly", label="elsewhere"):
        at_once, later, quietly = (
            cli("run", "-n", "nightly", "--", "true"),
            cli("run", "nightly", "-w", "1s", "-E", "3", "--", "true"),
            cli("run", "-q", "-n", "-E", "0", "nightly", "--", "true"),
        )
        assert (at_once.wait(), later.wait(), quietly.wait()) == (75, 3, 0)
    assert "elsewhere" in at_once.errors
    assert socket.gethostname() in at_once.errors
    assert at_once.errors.count("\n") == later.errors.count("\n") == 1
    assert quietly.errors == ""


def test_an_error_has_the_name_as_it_was_given(cli: Cli, locks: Locks) -> None:
    with locks.lock("größe"):
        run = cli("run", "-n", "größe", "--", "true", PYTHONIOENCODING="utf-8")
        assert run.wait() == 75
    assert "lock 'größe' not acquired" in run.errors
    assert run.errors.endswith("See: python -m holdtight explain LOCK_TIMEOUT\n")


def test_three_runs_take_turns_in_the_order_in_which_they_came(cli: Cli, locks: Locks) -> None:
    with locks.lock("nightly") as lease:
        runs = []
        for number in range(3):
            runs.append(cli("run", "nightly", "--", "sh", "-c", f"echo {number} $HOLDTIGHT_FENCE"))
            wait_for(lambda: locks.inspect("nightly").waiting == len(runs))
        first = lease.fence
    fences = [int(run.wait_line().split()[1]) for run in runs]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert first < fences[0] < fences[1] < fences[2]


def test_readers_run_beside_each_other_and_a_label_says_what_runs(cli: Cli, locks: Locks) -> None:
    one, two = (cli("run", "-s", "report", "--label", "q3", "--", "sh", "-c", "echo in; read line") for _ in range(2))
    one.expect("in")
    two.expect("in")
    assert [holder.label for holder in locks.inspect("report").holders] == ["q3", "q3"]
    for run in (one, two):
        run.send("go")
        assert run.wait() == 0


def test_a_semaphore_lets_so_many_run(cli: Cli, locks: Locks) -> None:
    runs = [cli("sem", "-p", "2", "encode", "--", "sh", "-c", "echo in; read line") for _ in range(5)]
    wait_for(lambda: locks.inspect("encode").waiting == 3)
    holders = locks.inspect("encode").holders
    assert len(holders) == 2
    assert {holder.label for holder in holders} == {"sh"}
    for run in runs:
        run.send("go")
    assert [run.wait() for run in runs] == [0] * 5


def test_input_and_much_output_pass_through(cli: Cli) -> None:
    run = cli("run", "nightly", "--", "sh", "-c", "read line; echo $line; head -c 5000000 /dev/zero | tr '\\0' x; echo")
    run.send("typed")
    run.expect("typed")
    assert len(run.wait_line()) == 5_000_000
    assert run.wait() == 0


def test_processes_that_the_command_leaves_behind_are_mentioned(cli: Cli, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    run = cli("run", "nightly", "--", "sh", "-c", f"while [ ! -e {flag} ]; do sleep 0.05; done >/dev/null 2>&1 &")
    assert run.wait() == 0
    assert run.errors == "holdtight: sh has ended, and processes that it has started are still running\n"
    flag.touch()


# Signals


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
)
def test_a_signal_while_waiting_leaves_the_line_and_ends_by_that_signal(cli: Cli, locks: Locks, number: int) -> None:
    with locks.lock("nightly"):
        run = cli("run", "nightly", "--", "true")
        wait_for(lambda: locks.inspect("nightly").waiting == 1)
        run.signal(number)
        assert run.wait() == -number
        assert locks.inspect("nightly").waiting == 0
    assert run.errors == ""


def test_signals_go_to_the_whole_group_of_the_command(cli: Cli, locks: Locks) -> None:
    traps = "".join(
        f"trap 'echo {name}' {name}; " for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT")
    )
    run = cli("run", "nightly", "--", "sh", "-c", traps + "echo ready; while :; do sleep 0.05; done")
    run.expect("ready")
    for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT"):
        run.signal(getattr(signal, f"SIG{name}"))
        run.expect(name)
    assert locks.inspect("nightly").holders
    run.signal(signal.SIGKILL)


def test_a_command_that_a_signal_ends_ends_run_with_128_and_its_number(cli: Cli, locks: Locks) -> None:
    run = cli("run", "nightly", "--", "sh", "-c", "echo ready; exec sleep 60")
    run.expect("ready")
    run.signal(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM
    assert locks.inspect("nightly").holders == ()


# What is wrong


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "nightly"], "Missing argument"),
        (["run", "nightly", "ls", "--color"], "put -- before the command"),
        (["run", "", "--", "true"], "name"),
        (["run", "a\nb", "--", "true"], "name"),
        (["run", "x", "--ttl", "soon", "--", "true"], "is no duration"),
        (["run", "x", "--ttl", "1ms", "--", "true"], "ttl"),
        (["run", "x", "--kill-after", "11s", "--", "true"], "a third of the ttl"),
        (["run", "x", "-n", "-w", "5", "--", "true"], "-n does not wait"),
        (["sem", "-p", "0", "x", "--", "true"], "permits"),
        (["--url", "http://x", "run", "x", "--", "true"], "http"),
        (["run", "x", "--url", "redis://:secret@x:port", "--", "true"], "port"),
        (["run", "x", "--url-file", "/does/not/exist", "--", "true"], "cannot read"),
        (["fly"], "No such command"),
    ],
    ids=lambda value: "-".join(value)[:30].replace("\n", " ") if isinstance(value, list) else "",
)
def test_wrong_usage_is_64_and_one_line(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdtight.cli.main import run_cli

    monkeypatch.setenv("HOLDTIGHT_URL", "redis://127.0.0.1:1")
    assert run_cli(words) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert text in said.err
    assert "secret" not in said.err


def test_no_server_given_says_how_to_give_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdtight.cli.main import run_cli

    monkeypatch.delenv("HOLDTIGHT_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    assert run_cli(["run", "x", "--", "true"]) == 64
    assert "HOLDTIGHT_URL" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_69_also_as_json(start_cli: Cli) -> None:
    run = start_cli("run", "x", "--json", "--", "true", url="redis://:secret@127.0.0.1:1")
    assert run.wait() == 69
    assert run.errors.startswith('{"error": "CONNECTION_LOST", "message": ')
    assert "secret" not in run.errors


@pytest.mark.parametrize("words", [("ls",), ("run", "x", "--", "true")], ids=["ls", "run"])
def test_the_timeout_bounds_how_long_connecting_may_take(start_cli: Cli, words: tuple[str, ...]) -> None:
    """The kernel accepts the connections; nobody answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        patient = start_cli("--timeout", "10m", *words, url=url)
        short = start_cli("--timeout", "200ms", *words, url=url)
        assert short.wait() == 69
        assert "did not answer in time" in short.errors
        assert patient.running


def test_a_fault_of_ours_is_70_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(settings: Common) -> None:
        raise RuntimeError("something broke\nin two lines")

    monkeypatch.setattr(Common, "locks", broken)
    assert run_cli(["ls"]) == 70
    assert capsys.readouterr().err == "holdtight: RuntimeError: something broke in two lines\n"
    assert run_cli(["--json", "ls"]) == 70
    assert capsys.readouterr().err.startswith('{"error": "INTERNAL"')


def test_a_user_without_rights_is_77(start_cli: Cli, start_server: StartServer) -> None:
    server: RunningServer = start_server()
    server.command("ACL", "SETUSER", "looker", "on", ">pass", "+ping", "+hello", "+info", "~*")
    run = start_cli("run", "x", "--", "true", url=server.url.replace("redis://", "redis://looker:pass@"))
    assert run.wait() == 77
    assert "pass@" not in run.errors
