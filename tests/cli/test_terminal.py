"""`holdtight run` from an interactive shell: Ctrl-C, Ctrl-Z, fg, typed input, and the line while it waits."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from holdtight import LockInfo, Locks, NotOwner, Waiter
from holdtight.cli.board import Board
from holdtight.cli.top import Screen
from tests.cli.conftest import CLI
from tests.support.processes import PATIENCE, wait_for
from tests.support.servers import RunningServer

pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None or shutil.which("setsid") is None, reason="needs bash and util-linux"
)


class Shell:
    """`bash -i` with a terminal of its own."""

    def __init__(self, url: str, **more: str) -> None:
        self._master, slave = pty.openpty()
        env = {
            **os.environ,
            "PYTHONPATH": ":".join(sys.path),
            "HOLDTIGHT_URL": url,
            "PS1": "$ ",
            "TERM": "xterm",
            "COLUMNS": "200",
            **more,
        }
        self._process = subprocess.Popen(
            ["setsid", "-c", "bash", "--norc", "--noprofile", "-i"], stdin=slave, stdout=slave, stderr=slave, env=env
        )
        os.close(slave)
        self._seen = ""
        self.type(
            f"ht() {{ {sys.executable} -P -c '{CLI}' \"$@\"; }}; bind 'set enable-bracketed-paste off' 2>/dev/null\n"
        )
        self.type("stty -echo; echo re''ady\n")
        self.expect("ready")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, pattern: str) -> str:
        """What the terminal showed up to and with this pattern."""
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self._seen)):
            ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{pattern!r} did not come:\n{self._seen}"
            self._seen += os.read(self._master, 65536).decode("utf-8", "replace")
        text, self._seen = self._seen[: found.end()], self._seen[found.end() :]
        return text

    @property
    def has_terminal(self) -> bool:
        """Whether the shell itself has it, and none of its jobs."""
        return os.tcgetpgrp(self._master) == self._process.pid

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)


@pytest.fixture
def shell(server: RunningServer) -> Iterator[Shell]:
    shell = Shell(server.url)
    yield shell
    shell.close()


def held(locks: Locks) -> bool:
    return bool(locks.inspect("nightly").holders)


def test_ctrl_c_ends_the_command_and_the_lock_is_free(shell: Shell, locks: Locks) -> None:
    loop = "while :; do sleep 0.05; done"
    shell.type(f"ht run nightly -- sh -c 'trap \"echo got-int; exit 9\" INT; echo be''gun; {loop}'; echo exit=$?\n")
    shell.expect("begun")
    assert held(locks)
    shell.type("\x03")
    shell.expect("got-int")
    shell.expect("exit=9")
    assert not held(locks)


def test_typed_input_reaches_the_command(shell: Shell) -> None:
    shell.type("ht run nightly -- sh -c 'echo be''gun; read a; echo got-$a'; echo exit=$?\n")
    shell.expect("begun")
    shell.type("some words\n")
    shell.expect("got-some words")
    shell.expect("exit=0")


def test_ctrl_z_stops_both_and_fg_goes_on(shell: Shell, locks: Locks) -> None:
    shell.type("ht run nightly -- sh -c 'echo be''gun; read a; echo got-$a'\n")
    shell.expect("begun")
    shell.type("\x1a")
    shell.expect("Stopped")
    assert held(locks)
    shell.type("fg\n")
    shell.expect("ht")
    shell.type("again\n")
    shell.expect("got-again")
    wait_for(lambda: not held(locks))
    shell.type("echo here=$?\n")
    shell.expect("here=0")


def test_ctrl_c_while_waiting_leaves_the_line_and_the_place_is_shown(shell: Shell, locks: Locks) -> None:
    with locks.lock("nightly", label="elsewhere"):
        shell.type("ht run nightly -- true\n")
        wait_for(lambda: locks.inspect("nightly").waiting == 1)
        shell.expect(r"place 1 of 1, held by \S+:\d+ \(elsewhere\)")
        shell.type("\x03")
        wait_for(lambda: locks.inspect("nightly").waiting == 0)
        shell.type("echo exit=$?\n")  # only now: the shell ends a whole line whose command died of Ctrl-C
        shell.expect("exit=130")
        assert locks.inspect("nightly").waiting == 0


def test_a_label_that_a_terminal_would_obey_is_shown_as_data_while_waiting(
    shell: Shell, server: RunningServer, locks: Locks
) -> None:
    with locks.lock("nightly", label="elsewhere"):
        server.command("APPEND", "ht:{nightly}", "\x1b]0;title\x07\nand more")
        shell.type("ht run nightly -- true\n")
        shell.expect(r"\(elsewhere\\x1b\]0;title\\x07\\nand more\)")
        shell.type("\x03")
        wait_for(lambda: locks.inspect("nightly").waiting == 0)


def test_top_shows_locks_as_they_change_and_obeys_keys(shell: Shell, locks: Locks) -> None:
    lease = locks.lock("order:42", label="checkout").acquire()
    shell.type("ht top -d 200ms; echo exit=$?\n")
    shell.expect(r"held 1")
    shell.expect(r"order:42 .*\(checkout\)")
    with locks.lock("stock:7"):
        shell.type("/stock\r")
        shell.expect("filter 'stock'")
    shell.type("/" + "\x7f" * 5 + "\r")
    shell.expect("order:42")
    shell.type("fit hangs\r")
    shell.expect("'order:42' released, fence")
    shell.type("q")
    shell.expect("exit=0")
    assert locks.audit(1)[0].reason == "it hangs"
    with pytest.raises(NotOwner):
        lease.release()


def test_top_releases_the_lock_that_it_asks_about_though_rows_have_moved(shell: Shell, locks: Locks) -> None:
    first = locks.lock("a").acquire()
    with locks.lock("c"):
        lease = locks.lock("b").acquire()
        shell.type("ht top -d 200ms; echo exit=$?\n")
        shell.expect("held 3")
        shell.type("\x1b[Bf")
        shell.expect("release 'b' by force")
        first.release()
        shell.expect("held 2")
        shell.type("it hangs\r")
        shell.expect("'b' released, fence")
        shell.type("q")
        shell.expect("exit=0")
    with pytest.raises(NotOwner):
        lease.release()


def test_top_takes_a_lock_from_the_holder_that_was_seen_and_from_no_later_one(
    shell: Shell, server: RunningServer, locks: Locks
) -> None:
    with Locks(server.url) as others:
        seen = locks.lock("nightly").acquire()
        shell.type("ht top -d 200ms; echo exit=$?\n")
        shell.expect("held 1")
        shell.type("f")
        shell.expect("release 'nightly' by force")
        seen.release()
        with others.lock("nightly"):
            shell.type("it hangs\r")
            shell.expect("'nightly' is not held by that holder any more")
            shell.type("q")
            shell.expect("exit=0")
    assert locks.audit() == []


def test_top_asks_for_no_reason_to_release_what_nobody_holds(locks: Locks) -> None:
    board = Board(locks, "*")
    board.infos["nightly"] = LockInfo("nightly", waiters=(Waiter("somebody"),), waiting=1)
    screen = Screen(board, locks, 1.0, None)
    with locks.lock("nightly"):
        for key in ("f", *"it hangs", "\r"):
            screen._key(key)  # pyright: ignore[reportPrivateUsage]
    assert locks.audit() == []


def test_top_obeys_each_press_of_a_key_that_is_held_down(shell: Shell, locks: Locks) -> None:
    """Arrows that arrive together are several."""
    with locks.lock("a"), locks.lock("b"), locks.lock("c"):
        shell.type("ht top; echo exit=$?\n")
        shell.expect("held 3")
        shell.type("\x1b[B\x1b[B\x1b[A\x1b[5~\r")
        shell.expect("'b': held")
        shell.type("xq")
        shell.expect("exit=0")


def test_a_narrow_terminal_shows_how_top_is_sorted_and_filtered(shell: Shell, locks: Locks) -> None:
    with locks.lock("order:" + "x" * 80):
        shell.type("COLUMNS=80 ht top; echo exit=$?\n")
        shell.expect("held 1")
        shell.type("s/order\r ")
        shell.expect("PAUSED  filter 'order'  sort age  redis://")
        shell.type("q")
        shell.expect("exit=0")


def test_top_in_a_pipe_prints_once(shell: Shell, locks: Locks) -> None:
    with locks.lock("order:42"):
        shell.type("ht top | cat; echo exit=$?\n")
        shown = shell.expect("exit=0")
    assert "held 1  waiting 0" in shown
    assert "order:42  exclusive" in shown
    assert "\x1b[?1049h" not in shown
