"""Hold and wait times per profile pattern, and profiles that follow from them. See docs/tuning.md.

Nothing is applied by itself. With renewal, which is the default, a ttl is the price of a crash and not the length of
the work: only locks with `renew=False` get a ttl from the times that were measured.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holdtight.base.clock import LONGEST_TTL, SHORTEST_UNRENEWED_TTL, seconds
from holdtight.base.records import ENDED, FAILED, GRANTED, LOST
from holdtight.clients.client import BaseLocks
from holdtight.config.profiles import UNSET, Profile, check_profiles, profile_for
from holdtight.ops.recorder import Record, Recorder, check_client, flush, recorder_of

__all__ = ["Advice", "Report", "Watch", "load", "watch"]

ENOUGH = 30
"""Grants without which nothing is suggested: a p99 of fewer is their maximum."""
OFTEN = 0.001
"""The share of lost leases from which a renewed lock should have a longer ttl."""
STEP = 1.1
"""Buckets of times grow by this factor: a quantile is at most a tenth too high, and there are some 300 buckets."""
LEAST = 1e-6
REST = "*"
"""Stands for all names that no profile fits."""


class Times:
    """Times in buckets, so that memory is bounded."""

    def __init__(self) -> None:
        self.count, self.longest = 0, 0.0
        self._buckets: dict[int, int] = {}

    def add(self, time: float) -> None:
        at = math.ceil(math.log(max(time, LEAST) / LEAST, STEP))
        self._buckets[at] = self._buckets.get(at, 0) + 1
        self.count += 1
        self.longest = max(self.longest, time)

    def quantile(self, share: float) -> float:
        """The upper end of the bucket that has it, or the longest time if that is less."""
        missing = math.ceil(self.count * share)
        for at, count in sorted(self._buckets.items()):
            missing -= count
            if missing <= 0:
                return min(LEAST * STEP**at, self.longest)
        return 0.0


@dataclass(frozen=True)
class Advice:
    """What was seen of the locks of one pattern, and what follows.

    Options:
        pattern: that of the profile, or "*" for all names that no profile fits.
        count: grants.
        hold_p50, hold_p99, hold_max: seconds from grant to end.
        wait_p99: seconds that callers waited, also those who got nothing.
        lost: leases that were lost.
        profile: the one that is suggested; None if there is nothing to change.
        reason: why.
    """

    pattern: str
    count: int
    hold_p50: float
    hold_p99: float
    hold_max: float
    wait_p99: float
    lost: int
    profile: Profile | None
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """The fields, in a form that `json.dumps` accepts."""
        return {**asdict(self), "profile": None if self.profile is None else _written(self.profile)}


class Report(tuple[Advice, ...]):
    """One `Advice` for each pattern. Prints as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        lines = ["pattern  count  hold p50 / p99 / max  wait p99  lost  suggestion"]
        for each in self:
            holds = " / ".join(_shown(time) for time in (each.hold_p50, each.hold_p99, each.hold_max))
            what = (
                "no change"
                if each.profile is None
                else ", ".join(f"{k}={v}" for k, v in _written(each.profile).items())
            )
            wait = _shown(each.wait_p99)
            lines.append(f"{each.pattern}  {each.count}  {holds}  {wait}  {each.lost}  {what}: {each.reason}")
        return "\n".join(lines)


class _Seen:
    def __init__(self) -> None:
        self.holds, self.waits = Times(), Times()
        self.grants = self.lost = self.unrenewed = 0
        self.ttl = 0.0


class Watch:
    """Watches the locks of one client. `tuning.watch(locks)` makes one. It never changes a lock by itself."""

    def __init__(self, profiles: tuple[tuple[str, Profile], ...]) -> None:
        self._profiles = dict(profiles)
        self._patterns = profiles
        self._seen: dict[str, _Seen] = {}
        self.records_dropped = 0

    def report(self) -> Report:
        """What was seen so far, one `Advice` for each pattern. `print()` shows a table.

        Example:
            >>> from holdtight import tuning
            >>> times = tuning.watch(locks)
            >>> with locks.lock("order:42"):
            ...     pass
            >>> [(each.pattern, each.count, each.profile) for each in times.report()]
            [('*', 1, None)]
        """
        flush()
        return Report(self._advice(pattern, seen) for pattern, seen in sorted(self._seen.items()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the suggested profiles to the file `path`, for `load`. Patterns without a suggestion keep the profile
        that they have.

        Example:
            >>> from holdtight import tuning
            >>> tuning.watch(locks).save("profiles.json")
            >>> tuning.load("profiles.json")
            {}
        """
        advised = {each.pattern: each.profile for each in self.report() if each.profile is not None}
        profiles = {**self._profiles, **advised}
        text = json.dumps({pattern: _written(profile) for pattern, profile in profiles.items()}, indent=2)
        beside = f"{os.fspath(path)}.{os.getpid()}.new"
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.replace(beside, path)

    def _advice(self, pattern: str, seen: _Seen) -> Advice:
        holds = seen.holds
        profile, reason = self._suggested(pattern, seen)
        quantiles = holds.quantile(0.5), holds.quantile(0.99), holds.longest
        return Advice(pattern, seen.grants, *quantiles, seen.waits.quantile(0.99), seen.lost, profile, reason)

    def _suggested(self, pattern: str, seen: _Seen) -> tuple[Profile | None, str]:
        holds, before = seen.holds, self._profiles.get(pattern, Profile())
        if holds.count < ENOUGH:
            return None, f"too few: {ENOUGH} holds are needed"
        if seen.unrenewed < seen.grants:
            if seen.lost > max(1, OFTEN * seen.grants):
                ttl = min(2 * seen.ttl, LONGEST_TTL)
                return before._replace(ttl=_round(ttl)), (
                    f"{seen.lost} leases were lost: a longer ttl outlives longer pauses and outages, at the price of "
                    "a longer wait after a crash"
                )
            return None, "with renewal, the ttl is the price of a crash, not the length of the work"
        p99 = holds.quantile(0.99)
        ttl = max(3 * p99, 1.5 * holds.longest)
        reason = f"renew=False: 3 x the p99 of its holds ({_shown(p99)}), at least 1.5 x the longest"
        if seen.lost:  # their holds ended with the ttl, and their work did not
            ttl = max(ttl, 2 * seen.ttl)
            reason = (
                f"{seen.lost} leases ended before their work did, whose real length is not known: twice the ttl or more"
            )
        ttl = _round(min(max(ttl, SHORTEST_UNRENEWED_TTL), LONGEST_TTL))
        return before._replace(ttl=ttl, renew=False), reason

    # As a sink of the recorder.

    def take(self, records: list[Record]) -> None:
        for record in records:
            if record[0] == FAILED:
                terms = record[1]
                if terms is not None:
                    self._of(terms, record[2]).waits.add(max(0.0, record[5] - record[4]))
            elif record[0] in (GRANTED, ENDED, LOST):
                tenure = record[1]
                seen = self._of(tenure.terms, tenure.name)
                if tenure.stand_in is not None:
                    continue
                if record[0] == GRANTED:
                    seen.grants += 1
                    seen.unrenewed += not tenure.terms.renew
                    seen.ttl = tenure.terms.ttl
                    seen.waits.add(max(0.0, record[3] - record[2]))
                else:
                    seen.lost += record[0] == LOST
                    seen.holds.add(max(0.0, record[2] - tenure.since))

    def _of(self, terms: Any, name: str) -> _Seen:
        pattern = terms.template
        if pattern is not None and pattern not in self._profiles:  # a job's template, which is no pattern
            pattern = profile_for(self._patterns, name)[0]
        return self._seen.setdefault(pattern or REST, _Seen())

    def refresh(self) -> None: ...

    def dropped(self, count: int) -> None:
        self.records_dropped += count

    def end(self) -> None: ...

    def after_fork(self) -> None:
        self._seen = {}


def watch(locks: BaseLocks[Any]) -> Watch:
    """Begins to watch the locks of this client, `Locks` or `AsyncLocks`. The same watch again if it is watched already.

    Example:
        >>> from holdtight import tuning
        >>> times = tuning.watch(locks)
        >>> with locks.lock("order:42"):
        ...     pass
        >>> [(each.pattern, each.count) for each in times.report()]
        [('*', 1)]
    """
    check_client(locks)
    recorder: Recorder = recorder_of(locks.events)
    for sink in recorder.sinks:
        if isinstance(sink, Watch):
            return sink
    made = Watch(locks.settings.profiles)
    recorder.sinks.append(made)
    return made


def load(path: str | os.PathLike[str]) -> dict[str, Profile]:
    """Reads from the file `path` what `save` wrote, or an operator, for `Locks(profiles=...)`. Raises ValueError if it
    is something else, OSError if the file cannot be read.

    Example:
        >>> from holdtight import tuning
        >>> with open("profiles.json", "w") as file:
        ...     _ = file.write('{"orders:*": {"ttl": 10, "wait": 2}}')
        >>> with Locks("memory://", profiles=tuning.load("profiles.json")) as tuned:
        ...     with tuned.lock("orders:42") as lease:
        ...         lease.ttl
        10.0
    """
    try:
        with open(path, encoding="utf-8") as file:
            found: Any = json.load(file)
        profiles = {pattern: Profile(**fields) for pattern, fields in found.items()}
        check_profiles(profiles)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{os.fspath(path)!r} does not hold profiles: {error}") from None
    return profiles


def _written(profile: Profile) -> Mapping[str, Any]:
    """The fields that differ from a plain profile, as JSON has them."""
    found: dict[str, Any] = {}
    for field, value in profile._asdict().items():
        if value is UNSET or value == Profile._field_defaults[field]:
            continue
        is_time = field in ("ttl", "wait", "max_hold", "warn_after") and value is not None
        found[field] = seconds(value, field) if is_time else value
    return found


def _round(time: float) -> float:
    """Up, to two digits: nobody wants a ttl of 3.2784512 s."""
    unit = 10.0 ** (math.floor(math.log10(time)) - 1)
    return round(math.ceil(round(time / unit, 6)) * unit, 6)


def _shown(time: float) -> str:
    return f"{time:.3g} s" if time >= 0.01 else f"{time * 1000:.2g} ms"
