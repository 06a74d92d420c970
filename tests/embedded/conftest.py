from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtight.embedded.folder import Home
from tests.support.homes import own_home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A folder for a shared server of the test's own."""
    with own_home(tmp_path / "home") as home:
        yield home
