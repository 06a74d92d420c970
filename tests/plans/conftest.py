"""No plan may simply be closed, not even in tests: the fixture ends unfinished plans as a driver would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plans.scripted import end_all


@pytest.fixture(autouse=True)
def no_plan_is_just_closed() -> Iterator[None]:
    yield
    end_all()
