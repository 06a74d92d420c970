"""A clock that a test moves, and blocking locks that use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdtight import Locks
from holdtight.testing import Clock


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    yield clock
    clock.stop()


@pytest.fixture
def locks(clock: Clock) -> Iterator[Locks]:
    with Locks(clock.store(), ttl=9) as locks:
        yield locks
