from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.faults import clients
from tests.faults.clients import COLOURS, Client, Colour, OpenClient


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> Colour:
    found: Colour = request.param
    return found


@pytest.fixture
def open_client(colour: Colour) -> Iterator[OpenClient]:
    """Clients of the colour under test, closed at the end."""
    with ExitStack() as stack:

        def begin(url: str, **settings: Any) -> Client:
            return stack.enter_context(closing(clients.open_client(colour, url, **settings)))

        yield begin
