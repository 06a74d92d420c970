"""The few statistics that the benchmark needs, on plain sequences of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Spread", "jain", "median", "median_ratio", "percentile", "spread"]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, interpolated between neighbours."""
    if not values:
        raise ValueError("no values to take a percentile of")
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie between 0 and 1, not {share}")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    if below == len(ordered) - 1:
        return float(ordered[below])
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution in three numbers."""

    count: int
    p50: float
    p99: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(len(values), percentile(values, 0.5), percentile(values, 0.99))


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index: 1 when all got the same, 1/n when one got everything."""
    if not shares:
        raise ValueError("no shares to compare")
    squares = sum(share * share for share in shares)
    if squares == 0:
        return 1.0
    return sum(shares) ** 2 / (len(shares) * squares)


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median of the ratios round by round.

    Not the ratio of the medians: what slowed one round down slowed both of its variants, and only the
    ratio within a round is free of it.
    """
    ratios = [n / d for n, d in zip(numerators, denominators, strict=True)]
    if not ratios:
        raise ValueError("no rounds to compare")
    return median(ratios)
