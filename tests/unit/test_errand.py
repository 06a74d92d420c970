"""Last words to a server: until it has heard them, or they do not matter any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hiredis
import pytest

from holdtight.errand import Errand
from holdtight.plan import Step


class Undo(Step):
    __slots__ = ("persistence", "until")


@pytest.fixture
def now() -> list[float]:
    return [100.0]


def errand(now: list[float], cls: type[Any] = Step, **settings: float) -> Errand:
    step = cls(b"words", None, lambda reply, sent: reply, patience=1.0, replacement=bytes, undo=True)
    for name, value in settings.items():
        setattr(step, name, value)
    place: Any = SimpleNamespace(clock=lambda: now[0])
    return Errand(place, step)


def test_one_answer_ends_it(now: list[float]) -> None:
    words = errand(now)
    assert words.deadline == 105.0
    assert words.answered(hiredis.ReplyError("LOADING"), 100.0) is False
    assert words.alive
    assert words.answered(0, 100.0) is True
    assert not words.alive


def test_what_may_still_arrive_is_undone_until_it_cannot(now: list[float]) -> None:
    words = errand(now, Undo, persistence=30.0, until=103.0)
    assert words.deadline == 133.0
    assert words.answered(0, 100.0) is True
    assert words.alive, "asked again after its interval"
    now[0] = 103.0
    assert words.answered(0, 103.0) is True
    assert not words.alive
