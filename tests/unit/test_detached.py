"""A held lock as text between two holders."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtight.base.names import check_name
from holdtight.base.values import owner_text
from holdtight.grants.lease import Detached

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=128)
OWNER = bytes(range(24))


def written(body: object) -> str:
    return "ht1." + base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")


@given(NAMES, st.binary(min_size=24, max_size=24))
def test_what_was_detached_is_read_back(name: str, owner: bytes) -> None:
    text = Detached(name, owner).text()
    assert Detached.read(text) == (name, owner)
    assert text.isascii()
    assert not set(text) & set(" \n\"'/+="), "fit for a URL, a header, a command line"


def test_the_text_names_no_server() -> None:
    assert Detached.read(written(["orders", owner_text(OWNER)])) == Detached("orders", OWNER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ht1.",
        "ht1",
        "ht2." + Detached("orders", OWNER).text()[4:],
        Detached("orders", OWNER).text()[4:],
        Detached("orders", OWNER).text()[:-5],
        "ht1.äöü",
        "ht1.AAAA",
        written([]),
        written(["orders"]),
        written(["orders", owner_text(OWNER), 1]),
        written(["orders", owner_text(OWNER[:-1])]),
        written(["orders", owner_text(OWNER + b"x")]),
        written(["orders", None]),
        written(["orders", 5]),
        written(["", owner_text(OWNER)]),
        written(["a\nb", owner_text(OWNER)]),
        written(["\ud800", owner_text(OWNER)]),
        written([5, owner_text(OWNER)]),
        written({"orders": 1, "x": 2}),
        written("ab"),
        written(None),
        written(10**30),
        "ht1." + base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ],
)
def test_anything_else_is_a_value_error_that_does_not_repeat_the_secret(text: str) -> None:
    with pytest.raises(ValueError, match=r"not what detach\(\) of a lease gave") as caught:
        Detached.read(text)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@given(st.text() | st.text().map("ht1.".__add__) | st.binary().map(lambda raw: "ht1." + base64.b64encode(raw).decode()))
def test_no_garbage_gives_another_error(text: str) -> None:
    try:
        name, owner = Detached.read(text)
    except ValueError:
        return
    assert len(owner) == 24
    check_name(name)


def test_deeply_nested_garbage_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="detach"):
        Detached.read("ht1." + base64.urlsafe_b64encode(b"[" * 200_000).decode())


@pytest.mark.parametrize("text", [None, 5, b"ht1.", ["ht1."]], ids=repr)
def test_what_is_no_text_is_a_type_error(text: Any) -> None:
    with pytest.raises(TypeError, match="text must be a str"):
        Detached.read(text)
