"""Nobody reads what `holdtight` says on stderr: a closed pipe, a full disk, a reader that hangs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from holdtight import Locks
from tests.cli.conftest import CLI, guardian_of
from tests.support.processes import Child
from tests.support.servers import RunningServer

Begin = Callable[..., Child]


class Pipe:
    """A pipe in the file system, and its reader."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "stderr"
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def fill(self) -> None:
        writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        for size in (4096, 1):
            with suppress(BlockingIOError):
                while True:
                    os.write(writer, b"x" * size)
        os.close(writer)

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._reader, 65536):
                pass

    def close(self) -> None:
        if self._reader >= 0:
            os.close(self._reader)
        self._reader = -1


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path)
    yield pipe
    pipe.close()


@pytest.fixture
def begin(server: RunningServer) -> Iterator[Begin]:
    """Starts `holdtight WORD…` whose stderr is that file or pipe."""
    with ExitStack() as stack:

        def begin(stderr: Path, *words: str, url: str = server.url) -> Child:
            program = ["sh", "-c", 'exec "$@" 2>"$0"', str(stderr), sys.executable, "-P", "-c", CLI, *words]
            return stack.enter_context(Child(program, {"PYTHONPATH": ":".join(sys.path), "HOLDTIGHT_URL": url}))

        yield begin


FULL = Path("/dev/full")


@pytest.fixture(params=["closed", "full"])
def deaf(request: pytest.FixtureRequest, pipe: Pipe, begin: Begin) -> Begin:
    """Starts `holdtight WORD…`, waits until the command says `in`, and from then on nothing can be said on stderr."""
    if request.param == "full" and not FULL.exists():
        pytest.skip("needs /dev/full")

    def deaf(*words: str) -> Child:
        run = begin(FULL if request.param == "full" else pipe.path, *words)
        run.expect("in")
        pipe.close()
        return run

    return deaf


def test_a_lock_that_is_lost_ends_the_command_and_is_76(deaf: Begin, server: RunningServer) -> None:
    run = deaf("run", "--ttl", "3s", "nightly", "--", "sh", "-c", "echo in; read line")
    server.command("DEL", "ht:{nightly}")
    assert run.wait() == 76
    assert run.lines() == [], "nothing of the command is left, which would keep its output open"


def test_the_command_keeps_its_exit_code_and_the_lock_is_given_back(deaf: Begin, locks: Locks, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    leaving = f"(until [ -e {flag} ]; do sleep 0.05; done) >/dev/null 2>&1 & exit 5"
    run = deaf("run", "nightly", "--", "sh", "-c", f"echo in; read line; {leaving}")
    run.send("go")
    assert run.wait() == 5, "although it could not be said that something still runs"
    assert not locks.inspect("nightly").holders
    flag.touch()


def test_the_command_is_ended_while_the_reader_hangs(pipe: Pipe, begin: Begin, server: RunningServer) -> None:
    """Signals go before words. The guardian, which would end the command later, is killed."""
    loop = "exec 2>/dev/null; trap 'echo ended; exit' TERM; echo in; while :; do sleep 0.05; done"
    run = begin(pipe.path, "run", "--ttl", "3s", "nightly", "--", "sh", "-c", loop)
    run.expect("in")
    os.kill(guardian_of(run), signal.SIGKILL)
    pipe.fill()
    server.command("DEL", "ht:{nightly}")
    run.expect("ended")
    pipe.drain()
    assert run.wait() == 76


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_an_error_keeps_its_exit_code(begin: Begin) -> None:
    wrong, unread, verbose = (
        begin(FULL, *words, url="redis://127.0.0.1:1") for words in (["fly"], ["ls"], ["ls", "-v"])
    )
    assert (wrong.wait(), unread.wait(), verbose.wait()) == (64, 69, 69)
