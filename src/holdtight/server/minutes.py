"""The counts of the last minutes. A minute that is over is read and summed once for all requests."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from holdtight.ops.history import BUCKETS
from holdtight.server.shared import Shared

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["MOST_MINUTES", "Minute", "Minutes", "Recent", "summary"]

MOST_MINUTES = 180
PAUSE = 1.0
OPEN = 3
"""This many of the latest minutes may still change: programs write a little after the event."""
MINUTES_IN_A_READ = 5
_SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))

Buckets = list[int]
Key = tuple[str, str]
"""What was measured, "w" for waiting or "h" for holding, and a template."""


class Minute:
    __slots__ = ("counts", "times", "waited")

    def __init__(self, fields: dict[str, int]) -> None:
        self.counts: dict[str, int] = {}
        self.times: dict[Key, Buckets] = {}
        waited = [0] * BUCKETS
        for field, number in fields.items():
            what, colon, rest = field.partition(":")
            if not colon:
                self.counts[field] = number
                continue
            bucket, _, template = rest.partition(":")
            found = self.times.get((what, template))
            if found is None:
                found = self.times[what, template] = [0] * BUCKETS
            found[int(bucket)] += number
            if what == "w":
                waited[int(bucket)] += number
        self.waited = percentiles(waited)

    @property
    def lost(self) -> int:
        """Leases that ran out, each counted once. If another caller has taken the lock meanwhile, that caller counted
        it."""
        count = self.counts.get
        return count("expired", 0) + max(0, count("lost", 0) - count("lost_told", 0))


class Recent:
    """Some minutes, oldest first, and their sum."""

    def __init__(self, minutes: dict[int, Minute], times: dict[Key, Buckets]) -> None:
        self.minutes = minutes
        self.times = times
        self._templates: list[dict[str, Any]] | None = None

    def summary(self, what: str, template: str) -> dict[str, Any]:
        return summary(self.times.get((what, template)))

    def templates(self) -> list[dict[str, Any]]:
        """All that was measured, the longest waits first."""
        if self._templates is None:
            names = sorted({template for _, template in self.times})
            self._templates = [
                {"template": each, "wait": self.summary("w", each), "hold": self.summary("h", each)} for each in names
            ]
            self._templates.sort(key=lambda each: each["wait"]["p95"] or 0, reverse=True)
        return self._templates


class Minutes:
    def __init__(self, service: "Service", store: Any) -> None:
        self._service = service
        self._store = store
        self._over: dict[int, Minute] = {}
        self._sums: dict[int, tuple[int, dict[Key, Buckets]]] = {}
        """By the number of minutes: the last of those that are over, and the sum of these."""
        self._shared: dict[int, Shared[Recent]] = {}

    async def recent(self, number: int) -> Recent:
        shared = self._shared.get(number)
        if shared is None:
            shared = self._shared[number] = Shared(partial(self._read, number), PAUSE)
        return await shared.get()

    async def _read(self, number: int) -> Recent:
        last = int(self._service.now // 60)
        wanted = range(last - number + 1, last + 1)
        missing = [each for each in wanted if each not in self._over]
        read: dict[int, Minute] = {}
        for at in range(0, len(missing), MINUTES_IN_A_READ):
            some = missing[at : at + MINUTES_IN_A_READ]
            answers = await self._service.ask_all([self._store.stats_step(each) for each in some])
            for each, found in zip(some, answers, strict=True):
                if isinstance(found, Exception):
                    raise found
                read[each] = Minute(found)
                await asyncio.sleep(0)
        self._over.update((each, found) for each, found in read.items() if each <= last - OPEN)
        for each in [each for each in self._over if each <= last - MOST_MINUTES]:
            del self._over[each]
        minutes = {each: self._over.get(each) or read[each] for each in wanted}
        until, known = self._sums.get(number, (0, {}))
        if until != last - OPEN:
            known = await _sum({}, (found for each, found in minutes.items() if each <= last - OPEN))
            self._sums[number] = last - OPEN, known
        fresh = await _sum(dict(known), (found for each, found in minutes.items() if each > last - OPEN))
        return Recent(minutes, fresh)


async def _sum(times: dict[Key, Buckets], minutes: Iterable[Minute]) -> dict[Key, Buckets]:
    """Adds one minute at a time, so that other requests are served in between. Existing lists stay as they are."""
    for minute in minutes:
        for key, some in minute.times.items():
            before = times.get(key)
            times[key] = some if before is None else [one + other for one, other in zip(before, some, strict=True)]
        await asyncio.sleep(0)
    return times


def summary(buckets: Buckets | None) -> dict[str, Any]:
    found = buckets or [0] * BUCKETS
    return {"n": sum(found), "buckets": found, **percentiles(found)}


def percentiles(buckets: Buckets) -> dict[str, float | None]:
    total = sum(buckets)
    return {word: _percentile(buckets, total, share) for word, share in _SHARES}


def _percentile(buckets: Buckets, total: int, share: float) -> float | None:
    """Treats the values of a bucket as spread evenly over it."""
    before, wanted = 0, share * total
    for at, number in enumerate(buckets):
        if number and before + number >= wanted:
            most = float(1 << at)
            least = most / 2 if at else 0.0
            return (least + (most - least) * (wanted - before) / number) / 1000
        before += number
    return None
