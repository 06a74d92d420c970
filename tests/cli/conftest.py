"""The command line as processes, on one server, and a client that sees what they do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from holdtight import Locks
from tests.support.processes import HEAR_SIGNALS, Child
from tests.support.servers import FLAVOURS, RunningServer, start

CLI = HEAR_SIGNALS + "from holdtight.cli import main; main()"
Cli = Callable[..., Child]


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
def locks(server: RunningServer) -> Iterator[Locks]:
    with Locks(server.url) as locks:
        yield locks
