"""Flights that wait for each other in one process: `recipes/joining.py`."""

from __future__ import annotations

import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdtight import DeadlockDetected
from holdtight.base.identity import current_work
from holdtight.recipes.joining import Flight

ROUNDS = 200


class Interrupted(Flight):
    """Another thread takes its turn whenever this one has looked for a circle."""

    def _waits_for(self, other: Flight) -> bool:
        found = super()._waits_for(other)
        time.sleep(0)
        return found


def test_of_those_that_close_a_circle_at_the_same_time_exactly_one_is_told() -> None:
    both, told = threading.Barrier(2), list[int]()
    pairs = [(Interrupted("a"), Interrupted("b")) for _ in range(ROUNDS)]

    def join(mine: int) -> None:
        for number, pair in enumerate(pairs):
            current_work.set(pair[mine])
            both.wait(30)
            try:
                pair[1 - mine].join(())
            except DeadlockDetected:
                told.append(number)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda mine: contextvars.copy_context().run(join, mine), (0, 1)))
    assert sorted(told) == list(range(ROUNDS))


def joined(flight: Flight, by: Flight) -> None:
    def join() -> None:
        current_work.set(by)
        flight.join(())

    contextvars.copy_context().run(join)


def test_a_circle_of_three_is_found_and_one_that_a_caller_has_left_is_not() -> None:
    first, second, third = (Flight(word) for word in "abc")
    joined(second, by=first)
    joined(third, by=second)
    with pytest.raises(DeadlockDetected):
        joined(first, by=third)
    [caller] = second.callers
    second.leave(caller)
    joined(first, by=third)


def test_blocks_are_those_of_all_who_wait_also_through_other_flights() -> None:
    outer, inner = Flight("outer"), Flight("inner")
    key, own = (object(), "held"), (object(), "outer")
    outer.entries = [(own, "lease of outer")]
    assert outer.join(()) is None, "it holds nothing, and is in no flight"
    caller = outer.join([(key, "a lease")])
    joined(inner, by=outer)
    assert inner.blocks() == [(own, "lease of outer"), (key, "a lease")]
    outer.leave(caller)
    assert inner.blocks() == [(own, "lease of outer")]
