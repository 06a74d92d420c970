"""Places for tests of the lock service: one real server, and the memory store."""

from __future__ import annotations

import pytest

from tests.support.memory import MemoryStore
from tests.support.servers import RunningServer


@pytest.fixture
def place(server: RunningServer | MemoryStore) -> RunningServer | MemoryStore:
    return server
