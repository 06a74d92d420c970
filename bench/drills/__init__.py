"""Drills: the loops that are measured. They run inside a worker, on whatever variant it has.

A drill takes the variant and plain values, and returns plain values that JSON can carry. Times are
integers in nanoseconds.
"""

from __future__ import annotations

from typing import Any, Protocol

from bench.variants import Variant


class Drill(Protocol):
    def __call__(self, variant: Variant, /, **arguments: Any) -> object: ...
