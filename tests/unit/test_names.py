"""Names, labels, namespaces and the keys they become: wrong ones are refused before anything is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtight.base.names import LONGEST_LABEL, LONGEST_NAME, check_label, check_name, check_namespace
from holdtight.stores.redis.keys import client_record, inbox, keys_of

CONTROLS = [chr(code) for code in [*range(0x20), *range(0x7F, 0xA0)]]
PLAIN = st.characters(exclude_categories=["Cs", "Cc"])


@pytest.mark.parametrize("name", ["a", "order:17", "ä", "{x}", "%", " ", "a b", "👍", "a" * 512, "ä" * 256])
def test_a_name_is_any_text_of_1_to_512_bytes(name: str) -> None:
    assert check_name(name) == name.encode()


@pytest.mark.parametrize("name", ["", "a" * 513, "ä" * 257, "\ud800", "x\udfffy"], ids=lambda name: ascii(name)[:12])
def test_an_empty_too_long_or_broken_name_is_a_value_error(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        check_name(name)


@pytest.mark.parametrize("control", CONTROLS, ids=ascii)
def test_a_control_character_is_a_value_error(control: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        check_name(f"a{control}b")


@pytest.mark.parametrize("name", [None, 5, b"a", ["a"]], ids=repr)
def test_a_name_that_is_no_text_is_a_type_error(name: object) -> None:
    with pytest.raises(TypeError, match="name must be a str"):
        check_name(name)


@given(st.text())
def test_every_text_is_a_name_or_a_value_error(name: str) -> None:
    try:
        raw = check_name(name)
    except ValueError:
        wrong = [char for char in name if char in CONTROLS or "\ud800" <= char <= "\udfff"]
        assert wrong or not name or len(name.encode(errors="replace")) > LONGEST_NAME
    else:
        assert raw.decode() == name
        assert 1 <= len(raw) <= LONGEST_NAME
        assert not any(char in CONTROLS for char in name)


# Labels.


def test_a_label_is_a_short_text_or_nothing() -> None:
    assert check_label(None) is None
    assert check_label("") is None
    assert check_label("billing") == "billing"
    assert check_label("ä" * 64) == "ä" * 64


@pytest.mark.parametrize("label", ["a" * (LONGEST_LABEL + 1), "ä" * 65, "a\nb", "\ud800", "a" * 600])
def test_a_label_that_is_too_long_or_has_control_characters_is_a_value_error(label: str) -> None:
    with pytest.raises(ValueError, match="label"):
        check_label(label)


def test_a_label_that_is_no_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="label"):
        check_label(5)


# Namespaces.


@pytest.mark.parametrize("namespace", ["ht", "a", "team:shop", "a" * 64, "ä" * 32, "x-y_z.1"])
def test_a_namespace_is_a_printable_text_of_1_to_64_bytes(namespace: str) -> None:
    assert check_namespace(namespace) == namespace


@pytest.mark.parametrize(
    "namespace",
    [
        "",
        "a" * 65,
        "ä" * 33,
        "a b",
        "a\n",
        "{a}",
        "a{",
        "a}",
        "a*",
        "a?",
        "a[",
        "a]",
        "a\\",
        "\ud800",
        "\u2028",
    ],
    ids=ascii,
)
def test_a_namespace_that_could_be_a_pattern_or_a_tag_is_a_value_error(namespace: str) -> None:
    with pytest.raises(ValueError, match="namespace="):
        check_namespace(namespace)


@pytest.mark.parametrize("namespace", [None, 5, b"ht"], ids=repr)
def test_a_namespace_that_is_no_text_is_a_type_error(namespace: object) -> None:
    with pytest.raises(TypeError, match="namespace must be a str"):
        check_namespace(namespace)


# Keys.


def tag(key: bytes) -> bytes:
    """What a cluster hashes: the text between the first { and the first } after it, if it is not empty."""
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    return key[start + 1 : end] if start >= 0 and end > start + 1 else key


def test_the_keys_of_a_name_are_readable() -> None:
    main = b"ht:{order:17}"
    assert keys_of("ht", "order:17") == (main, main + b":q", main + b":w", main + b":h")


def test_braces_and_percent_signs_are_escaped() -> None:
    assert keys_of("ht", "a{b}%7D").main == b"ht:{a%7Bb%7D%257D}"


@given(st.text(PLAIN, min_size=1, max_size=40))
def test_all_keys_of_a_name_share_one_hash_tag_that_no_name_can_end_early(name: str) -> None:
    keys = keys_of("ht", name)
    assert len({tag(key) for key in keys}) == 1
    assert keys.main == b"ht:{" + tag(keys.main) + b"}"
    for key in keys:
        assert key.count(b"{") == key.count(b"}") == 1


_TRICKY = st.text(st.sampled_from("ab{}%:257BDqw"), min_size=1, max_size=8)


@given(_TRICKY, _TRICKY)
def test_no_two_names_share_a_key(one: str, other: str) -> None:
    assert (one == other) == bool(set(keys_of("ht", one)) & set(keys_of("ht", other)))


@given(_TRICKY, st.sampled_from(["ht", "ht:client", "ht:inbox", "a:b"]), st.binary(min_size=8, max_size=8))
def test_records_and_inboxes_are_nobodys_lock(name: str, namespace: str, client: bytes) -> None:
    for shared in (client_record(namespace, client), inbox(namespace, client, 17)):
        assert b"{" not in shared
        assert shared not in keys_of(namespace, name)


def test_each_connection_has_an_inbox_of_its_own_that_fits_the_queue_entry() -> None:
    assert inbox("ht", b"x" * 8, 1) != inbox("ht", b"x" * 8, 2)
    assert len(inbox("n" * 64, b"\xff" * 8, 16**8 - 1)) <= 99  # two digits in an entry
