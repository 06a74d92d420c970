from __future__ import annotations

import pytest

from tests.unit.keeping import Still
from tests.unit.world import World


@pytest.fixture
def keeper() -> Still:
    return Still()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)
