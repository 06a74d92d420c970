"""The results of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.stats import median_ratio
from bench.targets import Better

UNSTEADY = 1.5  # the best round's ratio by the worst round's

LABELS = {
    "holdtight": "holdtight",
    "floor": "floor",
    "script_floor": "floor, same scripts",
    "drop_in": "holdtight, drop-in",
    "redis_py": "redis-py",
    "five": "holdtight, five nodes",
    "five_floor": "floor, five sockets",
    "asleep": "holdtight, spin=False",
    "five_asleep": "holdtight, five nodes, spin=False",
    "reader": "holdtight, to read",
    "permit": "holdtight, semaphore",
    "acked": "holdtight, acks=1",
    "service": "holdtight, lock service",
    "library": "holdtight, library",
    "bare": "bare HTTP server",
    "its own address": "holdtight, its own address",
    "by Sentinel": "holdtight, by Sentinel",
    "five (asyncio)": "holdtight, asyncio",
    "cohort": "holdtight, cohort=True",
    "counted": "holdtight, metrics",
    "traced": "holdtight, OpenTelemetry",
    "historic": "holdtight, history",
    "node_redlock": "redlock (Node.js)",
    "node_semaphore": "redis-semaphore (Node.js)",
    "redlock_ng": "redlock-ng",
    "redlock_py": "redlock-py",
    "python_redis_lock": "python-redis-lock",
    "flight_floor": "floor, GET and PTTL",
    "dogpile": "dogpile.cache",
}


def label(variant: str) -> str:
    return LABELS.get(variant, variant)


@dataclass(frozen=True, slots=True)
class Bar:
    """One variant's figure: a median over the rounds, and the p99 where there is one."""

    variant: str
    value: float
    p99: float | None = None
    ours: bool = False

    @property
    def is_ours(self) -> bool:
        return self.ours or label(self.variant).startswith("holdtight")


@dataclass(frozen=True, slots=True)
class Chart:
    """One quantity, side by side."""

    title: str
    unit: str
    better: Better
    bars: tuple[Bar, ...]


@dataclass(slots=True)
class Outcome:
    figures: dict[str, float] = field(default_factory=dict[str, float])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    charts: list[Chart] = field(default_factory=list[Chart])
    rounds: dict[str, Any] = field(default_factory=dict[str, Any])
    notes: list[str] = field(default_factory=list[str])

    def compare(self, key: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
        """Our value divided by theirs. Rounds that disagree widely are reported, since they mean little."""
        if not all(theirs):
            self.missing[key] = f"{key}: in some round the other side got nothing done at all"
            return
        self.figures[key] = median_ratio(ours, theirs)
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        if max(ratios) > UNSTEADY * min(ratios):
            self.notes.append(f"{key} is unsteady: {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds")
