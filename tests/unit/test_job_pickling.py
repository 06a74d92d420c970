"""A decorated function pickles by reference, as any function of a module does."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType
from typing import Any

import pytest

from holdtight import Locks

MODULE = """
from holdtight import Locks
locks = Locks("memory://pickled-jobs")

@locks.synchronized("job:{number}")
def synchronized(number): return number

@locks.once("once:{number}")
def once(number): return number

@locks.single_flight("flight:{number}", ttl=60)
def flight(number): return number

class Shop:
    @locks.synchronized("shop:{number}")
    def sell(self, number): return number
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    made: Any = ModuleType("pickled_jobs")
    monkeypatch.setitem(sys.modules, "pickled_jobs", made)
    exec(MODULE, made.__dict__)
    yield made
    locks: Locks = made.locks
    locks.close()


@pytest.mark.parametrize("word", ["synchronized", "once", "flight"])
def test_a_function_is_found_again_by_its_name(module: Any, word: str) -> None:
    function = getattr(module, word)
    again = pickle.loads(pickle.dumps(function))
    assert again is function
    assert again(7) == 7


def test_a_method_is_found_again_by_its_class(module: Any) -> None:
    assert pickle.loads(pickle.dumps(module.Shop.sell)) is module.Shop.sell
