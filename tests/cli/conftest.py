"""The command line as processes, on one server, and a client that sees what they do."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdtight import Locks
from holdtight.cli.main import run_cli
from tests.support.processes import HEAR_SIGNALS, Child, wait_for
from tests.support.servers import FLAVOURS, RunningServer, start

CLI = HEAR_SIGNALS + "from holdtight.cli import main; main()"
ME = f"{socket.gethostname()}:{os.getpid()}"
Cli = Callable[..., Child]
Run = Callable[..., tuple[int, str, str]]


def guardian_of(run: Child) -> int:
    """The pid of the guardian of `holdtight run`."""

    def find() -> int | None:
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        return next((int(pid) for pid in children if b"guardian.py" in Path(f"/proc/{pid}/cmdline").read_bytes()), None)

    found: int = wait_for(find, what="the guardian")
    return found


@pytest.fixture(scope="module")
def module_server() -> Iterator[RunningServer]:
    with start(FLAVOURS[0]) as server:
        yield server


@pytest.fixture
def server(module_server: RunningServer) -> RunningServer:
    """One flavour is enough: the command line decides nothing that depends on the server."""
    module_server.flushall()
    return module_server


@pytest.fixture
def start_cli() -> Iterator[Cli]:
    """Starts `holdtight WORD…`; ended with the test."""
    with ExitStack() as stack:

        def begin(*words: str, url: str | None = None, **env: str) -> Child:
            given = {"PYTHONPATH": ":".join(sys.path), **({"HOLDTIGHT_URL": url} if url else {}), **env}
            return stack.enter_context(Child([sys.executable, "-P", "-c", CLI, *words], given))

        yield begin


@pytest.fixture
def cli(server: RunningServer, start_cli: Cli) -> Cli:
    """The same, with the URL of the server."""
    return lambda *words, **env: start_cli(*words, url=server.url, **env)


@pytest.fixture
def run(server: RunningServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line in this process: the exit code, and what it wrote."""
    monkeypatch.setenv("HOLDTIGHT_URL", server.url)

    def run(*words: str) -> tuple[int, str, str]:
        code = run_cli(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def locks(server: RunningServer) -> Iterator[Locks]:
    with Locks(server.url) as locks:
        yield locks
