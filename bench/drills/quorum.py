"""Acquires alone, where a node may be bad. The cost of a release there is not measured."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, perf_counter_ns
from typing import NoReturn, TypedDict, cast

from bench.variants import Taker, Variant

NAMES = 64
_numbers = itertools.count()


class Acquires(TypedDict):
    """`failed`: why acquires failed; their time counts as well. `cut`: the last did not end in time."""

    durations: list[int]
    failed: list[str]
    cut: bool


class _TooLong(BaseException):
    """Not an Exception: libraries that swallow errors must not swallow this."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: object) -> NoReturn:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def acquires(variant: Variant, *, seconds: float, limit: float) -> Acquires:
    """One after the other for some seconds; after `limit` seconds the one that is under way is given up."""
    seen = Acquires(durations=[], failed=[], cut=False)
    until = perf_counter() + seconds
    start = 0
    try:
        with _at_most(limit):
            while perf_counter() < until:
                held = None
                start = perf_counter_ns()
                try:
                    held = variant.take(f"acquire:{next(_numbers) % NAMES}")
                except Exception as error:
                    seen["failed"].append(f"{type(error).__name__}: {error}"[:200])
                seen["durations"].append(perf_counter_ns() - start)
                start = 0
                if held is not None:
                    variant.give(held)
    except _TooLong:
        seen["cut"] = True
        if start:
            seen["durations"].append(perf_counter_ns() - start)
    return seen


class AsyncAcquires:
    """An event loop that stays between two drills, as its connections must."""

    def __init__(self, variant: Variant) -> None:
        self._runner = asyncio.Runner()
        self._client = variant.runner(1)
        self._taker = cast(Taker, self._runner.run(self._client.__aenter__()))

    def run(self, seconds: float) -> Acquires:
        return self._runner.run(self._acquires(seconds))

    async def _acquires(self, seconds: float) -> Acquires:
        seen = Acquires(durations=[], failed=[], cut=False)
        until = perf_counter() + seconds
        while perf_counter() < until:
            held = None
            start = perf_counter_ns()
            try:
                held = await self._taker.take(f"acquire:{next(_numbers) % NAMES}")
            except Exception as error:
                seen["failed"].append(f"{type(error).__name__}: {error}"[:200])
            seen["durations"].append(perf_counter_ns() - start)
            if held is not None:
                await self._taker.give(held)
        return seen


_loops: dict[int, AsyncAcquires] = {}


def async_acquires(variant: Variant, *, seconds: float, limit: float) -> Acquires:
    """The same in an asyncio task. No peer hangs there without end, so `limit` is not needed."""
    team = _loops.get(id(variant))
    if team is None:
        team = _loops[id(variant)] = AsyncAcquires(variant)
    return team.run(seconds)
