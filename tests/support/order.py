"""The order in which workers get the tests: each worker begins with an equal part of the list, by count.

Tests about time take most of the time and are few; no more than some of them run at once (see alone.py). In the order
of the folders, a few workers would get them all, and the others would run out of work. So these tests are spread
evenly over the list, file by file. Those of the lock service come first among them: some start a browser and take
half a minute, and one that begins last keeps one worker busy while the others have nothing left to do.

Every worker that plays a test with a topology or a cluster must form its own. So the tests with a topology stay
together at the head of the first worker's part, and those with a cluster at the head of the second one's. Tests that
must be alone come before all others: while they run, no other worker has begun, or has to end, a long test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from tests.support.alone import DEMANDING
from tests.support.clusters import CLUSTER
from tests.support.sentinels import SENTINEL

__all__ = ["in_good_order", "in_parts", "spread"]

T = TypeVar("T")


def in_good_order(items: Sequence[pytest.Item], workers: int = 1) -> list[pytest.Item]:
    parts: dict[str, list[pytest.Item]] = {
        each: [] for each in ("alone", "topology", "cluster", "service", "demanding", "others")
    }
    for item in items:
        parts[_part(item)].append(item)
    rest = spread(parts["service"] + parts["demanding"], parts["others"], lambda item: item.path)
    return in_parts(parts["alone"] + parts["topology"], parts["cluster"], rest, workers)


def _part(item: pytest.Item) -> str:
    folders, fixtures = item.path.parts, getattr(item, "fixturenames", ())
    played_on = item.callspec.params.get("server") if hasattr(item, "callspec") else None
    if item.get_closest_marker("alone"):
        return "alone"
    if played_on is CLUSTER or ("topology" in folders and "cluster_of" in fixtures):
        return "cluster"
    if played_on is SENTINEL or ("topology" in folders and "topology_of" in fixtures):
        return "topology"
    if "service" in folders:
        return "service"
    return "demanding" if DEMANDING.intersection(folders) else "others"


def in_parts(first: Sequence[T], second: Sequence[T], rest: Sequence[T], workers: int) -> list[T]:
    """Puts `first` at the head of the first worker's part of the list, and `second` at the head of the next part."""
    part = (len(first) + len(second) + len(rest)) // workers
    cut = max(0, part - len(first))
    return [*first, *rest[:cut], *second, *rest[cut:]]


def spread(few: Sequence[T], many: Sequence[T], group_of: Callable[[T], object]) -> list[T]:
    """Puts groups of the `few` evenly between the `many`. Both keep their order, and each group stays together."""
    merged, taken, begun = list[T](), 0, 0
    for _, group in itertools.groupby(few, group_of):
        until = begun * len(many) // len(few)
        merged += many[taken:until]
        together = list(group)
        merged += together
        taken, begun = until, begun + len(together)
    return merged + list(many[taken:])
