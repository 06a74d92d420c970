"""An interrupt may come while an object is made: an unfinished object is collected without an error."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import holdtight


def with_finalizers() -> Iterator[Any]:
    for module in pkgutil.walk_packages(holdtight.__path__, "holdtight."):
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and each.__module__ == module.name and "__del__" in vars(each):
                yield each


@pytest.mark.parametrize("cls", list(with_finalizers()), ids=lambda cls: f"{cls.__module__}.{cls.__qualname__}")
def test_what_was_never_finished_ends_without_a_complaint(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[str] = []
    monkeypatch.setattr("sys.unraisablehook", lambda each: complaints.append(f"{each.exc_value!r}"))
    made = cls.__new__(cls)
    del made
    assert not complaints


def test_there_are_some() -> None:
    assert len(list(with_finalizers())) > 5
