"""Defaults per name pattern: which pattern counts, and what a call may override."""

import pickle
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdtight import Locks, Profile

URL = "redis://localhost:1"

WRONG: Any = 7


@pytest.fixture
def locks() -> Iterator[Locks]:
    profiles = {
        "*": Profile(ttl=5),
        "orders:*": Profile(ttl="10s", wait=2, max_hold="1m", label="orders"),
        "orders:vip:*": Profile(wait=None),
        "orders:vip:7": Profile(renew=False, ttl="20ms"),
        "order?:*": Profile(ttl=99),
    }
    with Locks(URL, ttl=30, wait=7, label="client", profiles=profiles) as client:
        yield client


def test_a_name_gets_what_its_pattern_says(locks: Locks) -> None:
    options = locks.lock("orders:1").options
    assert (options.ttl, options.wait, options.max_hold, options.label) == (10.0, 2.0, 60.0, "orders")


def test_what_a_profile_leaves_out_comes_from_the_client(locks: Locks) -> None:
    options = locks.lock("invoices:1").options
    assert (options.ttl, options.wait, options.label, options.renew, options.max_hold) == (
        5.0,
        7.0,
        "client",
        True,
        None,
    )


def test_the_most_specific_pattern_counts_alone(locks: Locks) -> None:
    vip = locks.lock("orders:vip:1").options
    assert (vip.ttl, vip.wait, vip.label) == (30.0, None, "client")


def test_a_pattern_without_wildcards_goes_before_all_others(locks: Locks) -> None:
    seven = locks.lock("orders:vip:7").options
    assert (seven.renew, seven.ttl) == (False, 0.02)


def test_of_two_equally_long_patterns_the_first_given_counts() -> None:
    with Locks(URL, profiles={"a*c": Profile(ttl=1), "ab*": Profile(ttl=2)}) as locks:
        assert locks.lock("abc").options.ttl == 1


def test_the_call_overrides_the_profile(locks: Locks) -> None:
    options = locks.lock("orders:1", ttl=3, wait=0, max_hold=None, label=None, renew=True).options
    assert (options.ttl, options.wait, options.max_hold, options.label, options.renew) == (3.0, 0.0, None, None, True)


def test_profiles_hold_for_every_kind(locks: Locks) -> None:
    for lock in (locks.rwlock("orders:1").read(), locks.rwlock("orders:1").write()):
        assert (lock.options.ttl, lock.options.wait) == (10.0, 2.0)
    assert locks.semaphore("orders:1", permits=3).options.ttl == 10.0


def test_profiles_survive_pickling(locks: Locks) -> None:
    assert pickle.loads(pickle.dumps(locks)) is locks
    settings = pickle.loads(pickle.dumps(locks.settings))
    assert settings == locks.settings


@pytest.mark.parametrize(
    ("profiles", "error", "text"),
    [
        ([Profile()], TypeError, "profiles must map"),
        ({1: Profile()}, TypeError, "pattern in profiles must be a str"),
        ({"": Profile()}, ValueError, "empty"),
        ({"a": {"ttl": 1}}, TypeError, r"profiles\['a'\] must be a holdtight.Profile"),
        ({"a": Profile(ttl=-1)}, ValueError, r"profiles\['a'\].ttl"),
        ({"a": Profile(ttl=0.05)}, ValueError, r"profiles\['a'\].ttl"),
        ({"a": Profile(wait="soon")}, ValueError, r"profiles\['a'\].wait"),
        ({"a": Profile(renew=WRONG)}, TypeError, r"profiles\['a'\].renew"),
        ({"a": Profile(max_hold=True)}, ValueError, r"profiles\['a'\].max_hold"),
        ({"a": Profile(label=WRONG)}, TypeError, "label"),
        ({"a": Profile(warn_after="later")}, ValueError, r"profiles\['a'\].warn_after"),
        ({"a": Profile(warn_after=True)}, ValueError, r"profiles\['a'\].warn_after"),
    ],
)
def test_a_wrong_profile_is_refused_when_the_client_is_opened(profiles: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Locks(URL, profiles=profiles)


def test_how_long_a_hold_may_last_without_a_warning_is_ten_ttls_unless_the_profile_says() -> None:
    profiles = {"a": Profile(warn_after="1h"), "b": Profile(ttl=5), "c": Profile(ttl=5, warn_after=0)}
    with Locks(URL, ttl=30, profiles=profiles) as locks:
        after = {name: locks.lock(name).terms.warn_after for name in "abcd"}
        assert after == {"a": 3600.0, "b": 50.0, "c": 0.0, "d": 300.0}
        for lock in (locks.rwlock("a").read(), locks.rwlock("a").write(), locks.semaphore("a", permits=2)):
            assert lock.terms.warn_after == 3600.0


def test_durations_may_be_written_in_every_way() -> None:
    with Locks(URL, profiles={"a": Profile(ttl=timedelta(seconds=4), wait="250ms")}) as locks:
        options = locks.lock("a").options
    assert (options.ttl, options.wait) == (4.0, 0.25)
