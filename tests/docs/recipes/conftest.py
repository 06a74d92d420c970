from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.docs.recipes.page import Run, program


@pytest.fixture
def run() -> Iterator[Run]:
    """As page.program; the programs end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(program(*args, **kwargs))
