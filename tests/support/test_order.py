"""The order of the tests: see order.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.order import in_parts, spread


def test_groups_are_spread_evenly() -> None:
    assert spread(["A1", "A2", "B1", "B2"], list("abcd"), lambda each: each[0]) == [
        *("A1", "A2", "a", "b"),
        *("B1", "B2", "c", "d"),
    ]


@given(st.lists(st.sampled_from("ABC")), st.lists(st.sampled_from("abc")))
def test_nothing_is_lost_and_each_keeps_its_order(few: list[str], many: list[str]) -> None:
    merged = spread(few, many, lambda each: each)
    assert [each for each in merged if each.isupper()] == few
    assert [each for each in merged if each.islower()] == many


def test_two_groups_are_at_the_heads_of_two_parts() -> None:
    assert "".join(in_parts("AA", "BBB", "abcdefghijklm", 3)) == "AAabcdBBBefghijklm"
    assert "".join(in_parts("AAAA", "BBB", "ab", 9)) == "AAAABBBab"
    assert "".join(in_parts("AA", "BBB", "abc", 1)) == "AAabcBBB"
