"""The order in which workers get the tests: each worker begins with an equal part of the list, by count.

Tests about time take most of the time and are few; no more than some of them run at once (see alone.py). In the order
of the folders, a few workers would get them all, and the others would run out of work. So these tests are spread
evenly over the list, file by file. Tests with a topology come first and stay together, because every worker that
plays one must form its own topology.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from tests.support.alone import DEMANDING

__all__ = ["in_good_order", "spread"]

T = TypeVar("T")


def in_good_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    parts: dict[str, list[pytest.Item]] = {"topology": [], "demanding": [], "others": []}
    for item in items:
        folders = item.path.parts
        part = "topology" if "topology" in folders else "demanding" if DEMANDING.intersection(folders) else "others"
        parts[part].append(item)
    return parts["topology"] + spread(parts["demanding"], parts["others"], lambda item: item.path)


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
