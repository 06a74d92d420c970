from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.compat import face
from tests.compat.face import COLOURS, MAKERS, Colour, Face, Maker, OpenFace


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> Colour:
    found: Colour = request.param
    return found


@pytest.fixture(params=MAKERS)
def maker(request: pytest.FixtureRequest) -> Maker:
    """Plays a test with redis-py's locks and with ours."""
    found: Maker = request.param
    return found


@pytest.fixture
def open_face(colour: Colour) -> Iterator[OpenFace]:
    """Clients of the colour under test, closed at the end."""
    with ExitStack() as stack:

        def begin(url: str, maker: Maker = "ours", **settings: Any) -> Face:
            return stack.enter_context(closing(face.open_face(maker, colour, url, **settings)))

        yield begin
