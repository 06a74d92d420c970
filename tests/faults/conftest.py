from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.faults import clients
from tests.faults.clients import COLOURS, Client, Colour, OpenClient
from tests.faults.clocks import build_shim
from tests.faults.quorum import Nodes, StartNodes
from tests.support.servers import StartServer


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> Colour:
    found: Colour = request.param
    return found


@pytest.fixture
def open_client(colour: Colour) -> Iterator[OpenClient]:
    """Clients of the colour under test, closed at the end."""
    with ExitStack() as stack:

        def begin(url: str | list[str], **settings: Any) -> Client:
            return stack.enter_context(closing(clients.open_client(colour, url, **settings)))

        yield begin


@pytest.fixture
def start_nodes(start_server: StartServer) -> StartNodes:
    """Servers for a quorum, empty, and blessed by default."""

    def begin(count: int = 5, *, blessed: bool = True, **settings: Any) -> Nodes:
        nodes = Nodes([start_server() for _ in range(count)])
        if blessed:
            nodes.bless(**settings)
        return nodes

    return begin


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_shim(tmp_path_factory.mktemp("clockshim"))


@pytest.fixture
def nodes(start_nodes: StartNodes) -> Nodes:
    return start_nodes()
