"""Names that jobs make from the arguments of a call."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtight.recipes.names import Naming

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


class Colour(enum.Enum):
    RED = "red"
    NONE = None


class Thing:
    id = 7
    parts = ("a", "b")


def function(a: Any, b: Any = 5, /, c: Any = "c", *rest: Any, d: Any = 1, **more: Any) -> None: ...


def name(template: Any, *args: Any, **kwargs: Any) -> str:
    return Naming(template, function).of(args, kwargs)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("50%:a/b|c#", "50%25%3Aa%2Fb%7Cc%23"),
        (42, "42"),
        (True, "True"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.50"), "1.5"),
        (Decimal("100"), "100"),
        (Decimal("-0.00"), "0"),
        (date(2026, 1, 2), "2026-01-02"),
        (NOON, "2026-11-18T12%3A00%3A00+00%3A00"),
        (NOON.astimezone(timezone(timedelta(hours=2))), "2026-11-18T12%3A00%3A00+00%3A00"),
        (Colour.RED, "red"),
    ],
    ids=str,
)
def test_a_value_has_the_same_text_in_every_process(value: Any, text: str) -> None:
    assert name("{a}", value) == text


@pytest.mark.parametrize("value", [object(), 1.5, b"x", [1], Thing], ids=lambda each: type(each).__name__)
def test_a_value_whose_text_may_differ_is_refused_and_its_field_named(value: Any) -> None:
    with pytest.raises(TypeError, match=r"\{a\} is of type"):
        name("x:{a}", value)


@pytest.mark.parametrize("value", [None, "", Colour.NONE, Decimal("NaN")], ids=["None", "empty", "enum", "NaN"])
def test_a_value_that_names_nothing_is_refused_and_its_field_named(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\{a\} is"):
        name("x:{a}", value)


def test_fields_are_parameters_with_their_defaults_then_attributes_and_items() -> None:
    assert name("{a}:{b}:{c}:{d}", 1) == "1:5:c:1"
    assert name("{a}:{b}:{c}:{d}", 1, 2, c=3, d=4) == "1:2:3:4"
    assert name("{a.id}/{a.parts[1]}", Thing()) == "7/b"
    assert name("{a[sku]}", {"sku": 9}) == "9"
    assert name("{rest[0]}#{more[x]}", 1, 2, 3, 4, x=5) == "4#5"
    assert name("{{{a}}}", 1) == "{1}"
    assert name(lambda a, **more: f"{a}-{more['x']}", 1, x=2) == "1-2"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{}", "positional"),
        ("{0}", "positional"),
        ("{zz}", "no such parameter"),
        ("{a!r}", "!conversion"),
        ("{a:03d}", "!conversion"),
        ("{a}{b}", "one of : / | #"),
        ("{a}-{b}", "one of : / | #"),
        ("{a", "not a template"),
        ("{a[}", "not a template"),
        ("{a.}", "no parameter with"),
        ("", "empty"),
    ],
)
def test_a_wrong_template_shows_at_decoration(template: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("|", r"\|")):
        Naming(template, function)


def test_what_is_no_template_and_no_callable_is_refused() -> None:
    async def later() -> str:
        return ""

    for wrong in (7, None, later):
        with pytest.raises(TypeError, match="name"):
            Naming(wrong, function)
    with pytest.raises(ValueError, match="no call"):
        Naming("{a}")
    with pytest.raises(TypeError, match="returned"):
        name(lambda a: 7, 1)


def test_a_missing_argument_is_the_error_of_the_function() -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        name("{a}")


def test_an_attribute_that_is_not_there_says_which_field_wanted_it() -> None:
    with pytest.raises(AttributeError) as caught:
        name("{a.nothing}", Thing())
    assert caught.value.__notes__ == ["while making the name: {a.nothing}"]


values = st.text(min_size=1, max_size=4, alphabet="ab%:/|#3A5") | st.integers(0, 30)


@given(st.tuples(values, values), st.tuples(values, values), st.sampled_from(["{a}:{b}", "x{a}-/{b}y", "{a}|#{b}"]))
def test_no_two_argument_lists_share_a_name(one: Any, two: Any, template: str) -> None:
    same = tuple(map(str, one)) == tuple(map(str, two))
    assert (name(template, *one) == name(template, *two)) is same


def test_the_name_is_checked_like_any_other() -> None:
    make: Callable[[str], str] = lambda text: name("{a}", text)  # noqa: E731
    for wrong in ("x" * 600, "line\nbreak"):
        with pytest.raises(ValueError, match="name"):
            make(wrong)
