"""Programs that use a framework, in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.docs.recipes.page import Run, program


@pytest.fixture
def run() -> Iterator[Run]:
    """As page.program; the programs end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(program(*args, **kwargs))


def lines(path: Path) -> list[Any]:
    return path.read_text().splitlines() if path.exists() else []
