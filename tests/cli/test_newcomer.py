"""What goes wrong on the first day: the message says what happened and what to do next."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from holdtight import AsyncLocks, Locks, Unavailable
from tests.cli.conftest import Run
from tests.cli.test_terminal import Shell
from tests.support.servers import RunningServer


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["lss"], "No such command 'lss'. Did you mean 'ls'?"),
        (["frobnicate"], "No such command 'frobnicate'. See: holdtight --help"),
        (["ls", "--sort-by", "x"], "See: holdtight ls --help"),
        (["ls", "a", "b"], "See: holdtight ls --help"),
        (["show"], "Missing argument 'NAME'. See: holdtight show --help"),
        (["release", "x", "--force"], "Missing option '--reason'. See: holdtight release --help"),
        (["sem", "-p", "1", "x"], "As in: holdtight sem -p 3 nightly -- ./job.sh"),
        (["run", "x", "--", ""], "the command is empty: name a program after --"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_says_where_to_look(run: Run, words: list[str], text: str) -> None:
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert text in err


@pytest.fixture
def foreign() -> Iterator[str]:
    """The URL of a server that speaks HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    client.recv(4096)
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"redis://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


SAYS = "what answers is not a Redis or Valkey server"


def test_a_port_where_something_else_answers_is_unavailable(run: Run, foreign: str) -> None:
    for words in (("ls",), ("show", "x"), ("run", "-n", "x", "--", "true")):
        code, out, err = run(*words, "--url", foreign) if words[0] != "run" else run("--url", foreign, *words)
        assert (code, out, err.count("\n")) == (69, "", 1), err
        assert SAYS in err
    code, out, _ = run("doctor", "--url", foreign)
    assert code == 69
    assert out.startswith("ERROR UNREACHABLE")
    assert SAYS in out


def test_such_a_port_is_unavailable_in_both_colours(foreign: str) -> None:
    with Locks(foreign) as locks, pytest.raises(Unavailable, match=SAYS):
        locks.lock("x", wait=0).acquire()

    async def ask() -> None:
        async with AsyncLocks(foreign) as locks:
            await locks.lock("x", wait=0).acquire()

    with pytest.raises(Unavailable, match=SAYS):
        asyncio.run(ask())


def test_a_terminal_that_knows_ascii_only_shows_other_letters_as_codes(server: RunningServer, locks: Locks) -> None:
    shell = Shell(server.url, PYTHONIOENCODING="ascii")
    try:
        with locks.lock("\u540d", label="cron"):
            shell.type("ht ls; echo exit=$?\n")
            assert "\\u540d" in shell.expect("exit=0")
            shell.type("ht top -n 1; echo exit=$?\n")
            assert "\\u540d" in shell.expect("exit=0")
    finally:
        shell.close()
