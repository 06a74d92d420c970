"""Forms that a user may choose: a quorum, a terminal or a pipe, colours or none, and a lock taken by force."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from holdtight import Locks
from holdtight.cli.main import run_cli
from holdtight.cli.rows import COLUMNS
from tests.cli.conftest import Cli
from tests.cli.test_terminal import Shell
from tests.cli.witness import Witness
from tests.support.processes import wait_for
from tests.support.servers import RunningServer, StartServer

COLOURS = re.compile(r"\x1b\[[0-9;]*\b(3[0-7]|4[0-7]|9[0-7])m")


@pytest.fixture
def shell(server: RunningServer) -> Shell:
    return Shell(server.url)


def test_several_urls_are_a_quorum_that_votes_once_it_was_blessed(
    start_server: StartServer,
    start_cli: Cli,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    servers = [start_server() for _ in range(3)]
    urls = [server.url for server in servers]
    options = [word for url in urls for word in ("--url", url)]
    file = tmp_path / "urls"
    file.write_text("\n".join(urls))

    def told(*words: str) -> tuple[int, str, str]:
        code = run_cli(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    code, out, _ = told("doctor", *options)
    assert code == 1
    assert out.count("GUARDED") == 3
    code, out, err = told("doctor", "--bless", "--fail-on", "error", *options)
    assert "GUARDED" not in out
    assert [line.split(": ")[1] for line in err.splitlines()] == urls
    assert told("doctor", "-q", "--bless", "--fail-on", "error", *options)[2] == err
    monkeypatch.setenv("HOLDTIGHT_URL", " ".join(urls))
    holding = start_cli("run", "nightly", "--", "sh", "-c", "echo in; read line", url=" ".join(urls))
    holding.expect("in")
    for words in (options, ["--url-file", str(file)], []):
        code, out, _ = told("ls", *words)
        assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["NAME", "nightly"])
    servers[0].kill()
    assert told("ls")[0] == 0, "two are a majority"
    assert told("doctor", "--fail-on", "error")[0] == 1
    holding.send("go")
    assert holding.wait() == 0
    servers[1].kill()
    assert told("run", "-n", "nightly", "--", "true")[0] == 69


def test_a_command_whose_reader_has_gone_ends_by_sigpipe_and_gives_the_lock_back(cli: Cli, locks: Locks) -> None:
    run = cli("run", "nightly", "--", "sh", "-c", "echo in; while :; do echo more; sleep 0.01; done")
    run.expect("in")
    run._stdout.close()  # pyright: ignore[reportPrivateUsage]
    assert run.wait() == 128 + signal.SIGPIPE
    assert run.errors == ""
    assert not locks.inspect("nightly").holders


def test_a_lock_taken_by_force_ends_the_command_and_what_it_started(cli: Cli, locks: Locks, tmp_path: Path) -> None:
    """The next holder has the lock at once: it is kept out by the fence, or by waiting for the end of `run`."""
    witness, done = Witness(tmp_path), tmp_path / "done"
    run = cli("run", "--ttl", "9s", "--kill-after", "200ms", "nightly", "--", *witness.command)
    wait_for(lambda: witness.runs, what="the command runs")
    following = cli("run", "nightly", "--", "sh", "-c", f"while [ ! -e {done} ]; do sleep 0.05; done; date +%s.%N")
    wait_for(lambda: locks.inspect("nightly").waiting == 1)
    record = locks.force_release("nightly", reason="test")
    assert record is not None
    assert record.next is not None
    assert run.wait() == 76
    assert run.errors == "holdtight: the lease on 'nightly' is lost (FORCED); ending the command\n"
    done.touch()
    work = float(following.wait_line())
    assert following.wait() == 0
    assert witness.is_silent_since(work), "child and grandchild were dead before that work"
    assert time.time() > work


def test_on_a_terminal_ls_is_as_wide_as_that_and_in_no_colour(shell: Shell, locks: Locks) -> None:
    try:
        with locks.lock("order:" + "x" * 80, label="checkout"):
            shell.type("COLUMNS=80 ht ls; echo exit=$?\n")
            shown = shell.expect("exit=0")
            assert "\x1b[1m" in shown, "the header is bold"
            lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.split("\r\n")]
            header, row = (line.removeprefix("$ ").rstrip() for line in lines if re.match(r"(\$ )?(NAME|order)", line))
            assert header.split() == list(COLUMNS), "nothing but the name is cut"
            assert max(len(header), len(row)) <= 80
            assert re.search(r"^order:x+… +exclusive .* [0-9]{16}$", row)
            shell.type("ht ls | cat; echo exit=$?\n")
            piped = shell.expect("exit=0")
            assert "x" * 80 in piped
            assert "\x1b" not in piped
            shell.type("NO_COLOR=1 ht top -n 1; echo exit=$?\n")
            assert not COLOURS.search(shell.expect("exit=0"))
    finally:
        shell.close()
