"""Durations as users write them, drift and backoff."""

from __future__ import annotations

import pickle
import re
import time
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtight.base import clock
from holdtight.base.clock import Backoff, Drift, boottime, seconds, ttl_seconds, wait_seconds

WEEK = 7 * 24 * 3600


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0.0),
        (5, 5.0),
        (0.25, 0.25),
        (timedelta(milliseconds=250), 0.25),
        (timedelta(days=1), 86400.0),
        ("250ms", 0.25),
        ("5s", 5.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1.5s", 1.5),
        (" 5s ", 5.0),
        ("0s", 0.0),
    ],
    ids=repr,
)
def test_a_duration_is_seconds_a_timedelta_or_a_text_with_a_unit(written: object, meant: float) -> None:
    assert seconds(written, "x") == pytest.approx(meant)
    assert isinstance(seconds(written, "x"), float)


@pytest.mark.parametrize(
    "wrong",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        -1,
        -0.001,
        timedelta(seconds=-1),
        True,
        False,
        10**400,
        -(10**400),
        "",
        "5",
        "s",
        "5 s",
        "-5s",
        "5S",
        "5d",
        "1e3s",
        ".5s",
        "5.s",
        "٥s",
        "5s\n6s",
        "9" * 400 + "s",
        "5sec",
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_duration_is_a_value_error_that_names_the_argument(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"\bpatience\b"):
        seconds(wrong, "patience")


def test_an_int_too_long_to_be_printed_is_named_too() -> None:
    with pytest.raises(ValueError, match=r"\bpatience\b"):
        seconds(10**5000, "patience")


@pytest.mark.parametrize("wrong", [None, b"5s", [5], Decimal(5), 5j, object()], ids=lambda value: type(value).__name__)
def test_another_type_is_a_type_error_that_names_the_argument(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"\bpatience\b"):
        seconds(wrong, "patience")


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_every_finite_number_that_is_not_negative_is_a_duration(number: float) -> None:
    assert seconds(number, "x") == number


@given(st.integers(0, 10**12), st.sampled_from([("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600)]))
def test_every_whole_number_with_a_unit_is_a_duration(number: int, unit: tuple[str, float]) -> None:
    assert seconds(f"{number}{unit[0]}", "x") == pytest.approx(number * unit[1])


@given(st.text())
def test_no_text_gives_anything_but_a_duration_or_a_value_error(text: str) -> None:
    try:
        assert 0 <= seconds(text, "x") < float("inf")
        assert re.fullmatch(r"\s*[0-9.]+(ms|s|m|h)\s*", text)
    except ValueError as error:
        assert "x=" in str(error)  # noqa: PT017


def test_waiting_none_is_for_ever_and_zero_is_not_at_all() -> None:
    assert wait_seconds(None) is None
    assert wait_seconds(0) == 0.0
    assert wait_seconds("1m") == 60.0
    with pytest.raises(ValueError, match="wait=-1 is negative"):
        wait_seconds(-1)
    with pytest.raises(ValueError, match="wait=False"):
        wait_seconds(False)


@pytest.mark.parametrize("ttl", [0.1, "100ms", 1, "1h", WEEK, timedelta(days=7)], ids=repr)
def test_a_ttl_goes_from_100_ms_to_7_days(ttl: object) -> None:
    assert ttl_seconds(ttl, renewed=True) == seconds(ttl, "ttl")


@pytest.mark.parametrize("ttl", [0, 0.0999, WEEK + 1, "169h", 1e300], ids=repr)
def test_a_ttl_out_of_range_is_a_value_error(ttl: object) -> None:
    with pytest.raises(ValueError, match=r"ttl=.* is out of range: 100ms to 7 days"):
        ttl_seconds(ttl, renewed=True)


def test_a_ttl_that_is_not_renewed_may_be_10_ms() -> None:
    assert ttl_seconds("10ms", renewed=False) == 0.01
    with pytest.raises(ValueError, match="10ms to 7 days"):
        ttl_seconds("9ms", renewed=False)
    with pytest.raises(ValueError, match="renew=False"):
        ttl_seconds("50ms", renewed=True)


def test_the_clock_goes_on_in_suspend_where_there_is_such_a_clock() -> None:
    wanted = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    assert wanted == clock.CLOCK_ID
    before = time.clock_gettime(wanted)
    assert before <= boottime() <= time.clock_gettime(wanted)


# Drift and backoff.


def test_what_a_holder_may_rely_on_is_the_ttl_less_share_and_margin() -> None:
    assert Drift().valid(10.0) == pytest.approx(9.898)
    assert Drift(rate=0, fixed=0).valid(10.0) == 10.0
    assert Drift(rate=0.1, fixed="1s").valid(10.0) == pytest.approx(8.0)


def test_a_margin_larger_than_half_the_ttl_leaves_half_of_it() -> None:
    assert Drift(fixed="1h").valid(1.0) == 0.5


@given(rate=st.floats(0, 0.49), fixed=st.floats(0, 10), valid=st.floats(0.01, 1e6))
def test_the_ttl_for_a_time_is_never_too_short_for_it(rate: float, fixed: float, valid: float) -> None:
    drift = Drift(rate, fixed)
    assert drift.valid(drift.ttl_for(valid)) >= valid * (1 - 1e-9)


@pytest.mark.parametrize("rate", [-0.01, 0.5, 1, float("nan"), True, "0.01", None], ids=repr)
def test_a_drift_rate_is_a_share_below_one_half(rate: object) -> None:
    with pytest.raises(ValueError, match="drift rate="):
        Drift(rate=rate)  # type: ignore[arg-type]


def test_the_fixed_drift_is_a_duration() -> None:
    assert Drift(fixed="5ms") == Drift(fixed=0.005)
    with pytest.raises(ValueError, match="drift fixed"):
        Drift(fixed=-1)
    with pytest.raises(TypeError, match="drift fixed"):
        Drift(fixed=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "cap"), [(0, 1), ("2s", "1s"), (1, 0)], ids=repr)
def test_a_backoff_starts_above_zero_and_at_most_at_its_cap(first: object, cap: object) -> None:
    with pytest.raises(ValueError, match="retry first="):
        Backoff(first=first, cap=cap)  # type: ignore[arg-type]


@pytest.mark.parametrize("argument", ["first", "cap"])
def test_both_ends_of_a_backoff_are_durations(argument: str) -> None:
    with pytest.raises(ValueError, match=f"retry {argument}"):
        Backoff(**{argument: float("nan")})
    with pytest.raises(TypeError, match=f"retry {argument}"):
        Backoff(**{argument: None})  # type: ignore[arg-type]


@given(tries=st.integers(1, 10_000))
def test_pauses_grow_up_to_the_cap_with_at_most_half_of_them_jitter(tries: int) -> None:
    ceiling = min(1.0, 0.01 * 2.0 ** min(tries - 1, 100))
    assert ceiling / 2 <= Backoff(first="10ms", cap="1s").pause(tries) <= ceiling


def test_settings_of_time_are_frozen_and_compare_by_value() -> None:
    assert Backoff("10ms") == Backoff(0.01)
    assert hash(Drift()) == hash(Drift(0.01, 0.002))
    for each in (Drift(0.02, "5ms"), Backoff("20ms", "2s")):
        assert pickle.loads(pickle.dumps(each)) == each
    with pytest.raises(AttributeError):
        setattr(Drift(), "rate", 0.3)  # noqa: B010
