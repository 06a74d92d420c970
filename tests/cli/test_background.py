"""`holdtight run` as a job of a shell: `&`, Ctrl-Z and `bg`, and who has the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtight import Locks
from tests.cli.conftest import CLI
from tests.cli.test_terminal import Shell
from tests.support.processes import wait_for
from tests.support.servers import RunningServer

pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None or shutil.which("setsid") is None or not Path("/proc/self/stat").exists(),
    reason="needs bash, util-linux and /proc",
)
RUN = f'{sys.executable} -P -c "$CLI" run nightly --'
"""No function of the shell: in the background that would be a process of its own, which nothing stops."""


@pytest.fixture
def shell(server: RunningServer) -> Iterator[Shell]:
    shell = Shell(server.url, CLI=CLI)
    yield shell
    shell.close()


class Gate:
    """A pipe in the file system that the command reads a line from. It starts no process meanwhile: one that Ctrl-Z
    stops between vfork and exec keeps its parent from stopping."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)  # also its reader, so that no side waits for the other
        self.wait = f"read go < {path}"

    def open(self) -> None:
        os.write(self._fd, b"go\n")

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.close()


def stopped(locks: Locks) -> bool:
    """Whether the `holdtight run` that has the lock is stopped."""
    holders = locks.inspect("nightly").holders
    if not holders or holders[0].pid is None:
        return False
    return Path(f"/proc/{holders[0].pid}/stat").read_text().rpartition(") ")[2].startswith("T")


def begun(locks: Locks) -> bool:
    return bool(locks.inspect("nightly").holders)


def obeys(shell: Shell) -> None:
    """The shell has the terminal: it reads what is typed."""
    shell.type("echo he''re=$((1 + 1))\n")
    shell.expect("here=2")


def into_the_background(shell: Shell, locks: Locks) -> None:
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.type("bg\n")
    wait_for(lambda: not stopped(locks))


def to_the_foreground(shell: Shell) -> None:
    shell.type("fg\n")
    wait_for(lambda: not shell.has_terminal, what="fg")


def test_a_job_that_wants_the_terminal_is_stopped_and_gets_it_by_fg(shell: Shell, locks: Locks) -> None:
    shell.type(f"{RUN} sh -c 'read a; echo got-$a' &\n")
    wait_for(lambda: stopped(locks), what="the job to be stopped, which cannot read")
    obeys(shell)
    to_the_foreground(shell)
    shell.type("some words\n")
    shell.expect("got-some words")
    obeys(shell)
    assert not begun(locks)


def test_a_job_that_is_brought_to_the_foreground_while_it_runs_can_read(shell: Shell, locks: Locks, gate: Gate) -> None:
    """The shell sends no signal then: nothing was stopped."""
    shell.type(f"{RUN} sh -c '{gate.wait}; read a; echo got-$a' &\n")
    wait_for(lambda: begun(locks))
    to_the_foreground(shell)
    gate.open()
    shell.type("some words\n")
    shell.expect("got-some words")
    obeys(shell)


def test_a_job_that_ends_in_the_background_leaves_the_terminal_to_the_shell(
    shell: Shell, locks: Locks, gate: Gate
) -> None:
    shell.type(f"{RUN} sh -c 'echo be''gun; {gate.wait}'\n")
    shell.expect("begun")
    into_the_background(shell, locks)
    gate.open()
    wait_for(lambda: not begun(locks))
    obeys(shell)


def test_a_job_that_is_stopped_again_in_the_background_leaves_the_terminal_to_the_shell(
    shell: Shell, locks: Locks, gate: Gate
) -> None:
    shell.type(f"{RUN} sh -c 'echo be''gun; {gate.wait}; read a; echo got-$a'\n")
    shell.expect("begun")
    into_the_background(shell, locks)
    gate.open()
    wait_for(lambda: stopped(locks))
    assert shell.has_terminal
    obeys(shell)
    to_the_foreground(shell)
    shell.type("some words\n")
    shell.expect("got-some words")
    obeys(shell)
