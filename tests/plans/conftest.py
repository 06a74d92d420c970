"""No plan is just closed, in tests neither: what a test left under way is ended as a driver would end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plans.scripted import end_all


@pytest.fixture(autouse=True)
def no_plan_is_just_closed() -> Iterator[None]:
    yield
    end_all()
