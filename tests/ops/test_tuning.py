"""holdtight.tuning: what is measured per pattern, what is suggested and why, and that nothing changes by itself."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtight import AsyncLocks, LeaseLost, Locks, LockTimeout, Profile, tuning
from holdtight.testing import Clock, lose
from holdtight.tuning import Times

PROFILES = {
    "batch:*": Profile(ttl=60, renew=False, label="batch"),
    "order:*": Profile(ttl=10, wait=2),
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def locks(clock: Clock) -> Iterator[Locks]:
    with Locks(clock.store(), profiles=PROFILES) as locks:
        yield locks


def hold(locks: Locks, clock: Clock, name: str, *times: float) -> None:
    for time in times:
        with locks.lock(name):
            clock.advance(time)


def row(watch: tuning.Watch, pattern: str) -> tuning.Advice:
    return next(each for each in watch.report() if each.pattern == pattern)


def test_times_are_counted_per_pattern(locks: Locks, clock: Clock) -> None:
    watch = tuning.watch(locks)
    hold(locks, clock, "order:1", *[1.0] * 60)
    hold(locks, clock, "order:2", *[2.0] * 40)
    hold(locks, clock, "order:3", 5.0)
    hold(locks, clock, "elsewhere", 3.0)
    seen = row(watch, "order:*")
    assert (seen.count, seen.lost) == (101, 0)
    assert seen.hold_max == pytest.approx(5, rel=0.01)
    assert seen.hold_p50 == pytest.approx(1, rel=0.11)
    assert seen.hold_p99 == pytest.approx(2, rel=0.11)
    assert row(watch, "*").count == 1
    with locks.lock("order:1"), pytest.raises(LockTimeout):
        locks.lock("order:1", wait=0).acquire()
    assert row(watch, "order:*").wait_p99 < 0.1


def test_a_job_counts_under_the_pattern_that_its_name_matches(locks: Locks) -> None:
    watch = tuning.watch(locks)
    for template in ("order:{number}", "bill:{number}"):
        locks.synchronized(template)(lambda number: number)(7)
    assert [(each.pattern, each.count) for each in watch.report()] == [("*", 1), ("order:*", 1)]


def test_a_lock_without_renewal_gets_a_ttl_from_its_holds(locks: Locks, clock: Clock) -> None:
    watch = tuning.watch(locks)
    hold(locks, clock, "batch:1", *[2.0] * 99, 3.0)
    advice = row(watch, "batch:*")
    assert advice.profile is not None
    # p99 is 2 s, in a bucket that may be a tenth too high.
    assert 6 <= float(advice.profile.ttl) <= 6.7  # type: ignore[arg-type]
    assert advice.profile._replace(ttl=60) == PROFILES["batch:*"]
    assert "3 x the p99" in advice.reason
    hold(locks, clock, "batch:1", 40.0)
    advice = row(watch, "batch:*")
    assert advice.profile is not None
    assert advice.profile.ttl == 60  # 1.5 x 40 s


def test_a_ttl_that_was_too_short_is_doubled(locks: Locks, clock: Clock) -> None:
    watch = tuning.watch(locks)
    hold(locks, clock, "batch:1", *[2.0] * 200)
    with pytest.raises(LeaseLost):
        hold(locks, clock, "batch:1", 90.0)
    advice = row(watch, "batch:*")
    assert advice.profile is not None
    assert (advice.profile.ttl, advice.lost) == (120, 1)
    assert "real length is not known" in advice.reason


def test_a_renewed_lock_gets_no_ttl_from_the_length_of_its_work(locks: Locks, clock: Clock) -> None:
    watch = tuning.watch(locks)
    hold(locks, clock, "order:1", *[100.0] * 40)
    advice = row(watch, "order:*")
    assert advice.profile is None
    assert "price of a crash" in advice.reason
    for number in range(3):
        lose(locks.lock(f"order:lost{number}").acquire())
    advice = row(watch, "order:*")
    assert advice.profile == Profile(ttl=20, wait=2)
    assert "3 leases were lost" in advice.reason


def test_few_holds_suggest_nothing(locks: Locks, clock: Clock) -> None:
    watch = tuning.watch(locks)
    hold(locks, clock, "batch:1", *[1.0] * 29)
    assert row(watch, "batch:*").profile is None
    assert "too few" in row(watch, "batch:*").reason
    hold(locks, clock, "batch:1", 1.0)
    assert row(watch, "batch:*").profile is not None


def test_suggestions_are_saved_and_loaded_and_never_applied(locks: Locks, clock: Clock, tmp_path: Path) -> None:
    watch = tuning.watch(locks)
    assert tuning.watch(locks) is watch
    hold(locks, clock, "batch:1", *[1.0] * 40)
    path = tmp_path / "profiles.json"
    watch.save(path)
    with locks.lock("batch:1") as lease:
        assert lease.ttl == 60
    loaded = tuning.load(path)
    assert loaded["order:*"] == PROFILES["order:*"]
    assert loaded["batch:*"].label == "batch"
    with Locks("memory://tuned", profiles=loaded) as tuned, tuned.lock("batch:1") as lease:
        assert 3 <= lease.ttl <= 3.4
    assert [*tmp_path.iterdir()] == [path]
    text = str(watch.report())
    assert "batch:*" in text
    assert "renew=False" in text
    json.dumps([each.as_dict() for each in watch.report()])


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"tll": 5}}', '{"a": {"ttl": "5 parsecs"}}'])
def test_a_file_with_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profiles.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="does not hold profiles"):
        tuning.load(path)
    with pytest.raises(FileNotFoundError):
        tuning.load(tmp_path / "nothing")


def test_what_is_no_client_is_refused() -> None:
    not_a_client: Any = object()
    with pytest.raises(TypeError, match="must be a Locks"):
        tuning.watch(not_a_client)


def test_memory_is_bounded_and_quantiles_are_close() -> None:
    times, rng = Times(), random.Random(7)
    values = sorted(rng.lognormvariate(0, 3) for _ in range(20_000))
    for value in values:
        times.add(value)
    times.add(0.0)
    times.add(7 * 24 * 3600.0)
    assert len(times._buckets) < 300
    for share in (0.5, 0.9, 0.99):
        assert times.quantile(share) == pytest.approx(values[int(share * len(values))], rel=0.12)


def test_asyncio() -> None:
    async def main() -> tuning.Report:
        async with AsyncLocks("memory://tuning") as locks:
            watch = tuning.watch(locks)
            async with locks.lock("x"):
                pass
            return watch.report()

    (advice,) = asyncio.run(main())
    assert (advice.pattern, advice.count) == ("*", 1)
