"""The names of keys: one slot for all keys of a name, and no name reaches into another's."""

from __future__ import annotations

import binascii
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdtight.base.names import check_name
from holdtight.stores.redis import keys
from tests.scripts.workbench import ALICE, BOB, HANDED_ON, Desk
from tests.support.servers import FLAVOURS, StartServer, start

quick = settings(max_examples=150, deadline=None, database=None, derandomize=True)


def is_a_name(text: str) -> bool:
    try:
        return bool(check_name(text))
    except ValueError:
        return False


# Confusing names: braces, the escape and its own digits, the suffixes, and everything else.
tricky = st.text("{}%:qwh257BD", min_size=1, max_size=12)
names = tricky | st.text(min_size=1, max_size=40).filter(is_a_name)
namespaces = st.text("abht:%7B-_.", min_size=1, max_size=8)
AWKWARD = ["{", "}", "{}", "}{", "{x}", "x}y", "%", "%7B", "%257B", "a:q", "{a}:w", "ключ", "鎖{錠}", " "]


def slot(key: bytes) -> int:
    """As servers compute it: from the text between the first { and the next }, if it is not empty."""
    _, brace, rest = key.partition(b"{")
    tag, end, _ = rest.partition(b"}")
    return binascii.crc_hqx(tag if brace and end and tag else key, 0) % 16384


@quick
@given(namespaces, names)
@example("ht", "}")
@example("ht", "{}")
def test_all_keys_of_a_name_are_in_one_slot(namespace: str, name: str) -> None:
    assert len({slot(key) for key in keys.keys_of(namespace, name)}) == 1


@quick
@given(names)
def test_the_slot_comes_from_the_whole_name_and_from_nothing_else(name: str) -> None:
    first, second = keys.keys_of("ht", name), keys.keys_of("other", name)
    assert slot(first.main) == slot(second.queue)
    tag = first.main.partition(b"{")[2].partition(b"}")[0]
    assert first.main == b"ht:{" + tag + b"}"


@quick
@given(namespaces, names, namespaces, names)
@example("ht", "{", "ht", "%7B")
@example("ht", "a", "ht", "a}:q")
@example("a", "b", "a:a", "b")
def test_two_names_never_share_a_key(space: str, name: str, other_space: str, other: str) -> None:
    mine, others = set(keys.keys_of(space, name)), set(keys.keys_of(other_space, other))
    assert len(mine) == 4
    assert mine.isdisjoint(others) == ((space, name) != (other_space, other))


@quick
@given(st.lists(tricky, min_size=2, max_size=2, unique=True))
def test_two_tricky_names_never_share_a_key(pair: list[str]) -> None:
    assert set(keys.keys_of("ht", pair[0])).isdisjoint(keys.keys_of("ht", pair[1]))


@quick
@given(namespaces, names, st.binary(min_size=8, max_size=8), st.integers(0, 2**40))
def test_records_inboxes_and_publications_are_nobodys_lock(space: str, name: str, client: bytes, number: int) -> None:
    locks = set(keys.keys_of(space, name))
    others = {keys.client_record(space, client), keys.inbox(space, client, number), keys.waits(space, client * 3)}
    assert len(others) == 3
    assert not locks & others


def test_the_longest_namespace_makes_an_inbox_that_an_entry_can_hold() -> None:
    assert len(keys.inbox("n" * 64, b"\xff" * 8, 2**40)) <= 99


@pytest.fixture(scope="module")
def cluster_node() -> Iterator[Desk]:
    flavour = next((each for each in FLAVOURS if not each.missing()), None)
    if flavour is None:
        pytest.skip(f"needs {FLAVOURS[0].needs}")
    with start(flavour, "--cluster-enabled", "yes") as server:
        desk = Desk(server)
        yield desk
        desk.close()


@pytest.mark.parametrize("name", AWKWARD)
def test_a_server_computes_the_same_slots(cluster_node: Desk, name: str) -> None:
    for key in keys.keys_of("ht", name):
        assert cluster_node.wire.call("CLUSTER", "KEYSLOT", key) == slot(key)


def test_awkward_names_lock_only_themselves(start_server: StartServer) -> None:
    server = start_server()
    desks = [Desk(server, name) for name in AWKWARD]
    for desk in desks:
        assert isinstance(desk.attempt(ALICE), bytes)
        assert desk.attempt(BOB)[:3:2] == [0, ALICE]
    for desk in desks:
        assert desk.release(ALICE) in HANDED_ON
        assert desk.state().owner == BOB
        desk.close()
