"""Which slot a request belongs to, what redirections and CLUSTER SLOTS say, and the sharded form of scripts."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight import Locks
from holdtight.stores.redis import keys, script
from holdtight.stores.redis.cluster_scout import agreed_on
from holdtight.stores.redis.resp import command
from holdtight.stores.redis.script import with_script_body
from holdtight.stores.redis.slots import (
    SLOTS,
    Endpoint,
    first_key,
    mget_keys,
    read_slots,
    redirection,
    sharded,
    slot_of,
    slot_of_request,
)


@pytest.mark.parametrize(
    ("key", "slot"),
    # As CLUSTER KEYSLOT says.
    [(b"foo", 12182), (b"ht:{foo}", 12182), (b"ht:{foo}:q", 12182), (b"{}foo", 9500), (b"{foo", 13308)],
)
def test_the_slot_is_that_of_the_hash_tag(key: bytes, slot: int) -> None:
    assert slot_of(key) == slot


def test_all_keys_of_a_name_share_a_slot() -> None:
    for name in ("order:42", "a{b}c", "{}", "%"):
        assert len({slot_of(key) for key in keys.keys_of("ht", name)}) == 1


@pytest.mark.parametrize("namespace", ["ht", "a:b", "шоп"])
@pytest.mark.parametrize("name", ["order:42", "a{b}c", "{}", "%", "}", "ключ"])
def test_a_lock_object_of_a_cluster_knows_the_slot_of_its_key(namespace: str, name: str) -> None:
    with Locks("redis+cluster://127.0.0.1:1", namespace=namespace) as locks:
        prepared: Any = locks.lock(name).prepared
        assert prepared.home == slot_of(prepared.main)


@pytest.mark.parametrize(
    ("request_", "key"),
    [
        (command("GET", "a"), b"a"),
        (command("SET", "ht:{a}", "x", "PX", 5), b"ht:{a}"),
        (command("EVALSHA", "0" * 40, 2, "k1", "k2", "arg"), b"k1"),
        (command("EVAL", "return 1", 0, "arg"), None),
        (command("SCAN", 0), None),
        (command("PING"), None),
    ],
)
def test_the_first_key_decides(request_: bytes, key: bytes | None) -> None:
    assert first_key(request_) == key
    assert slot_of_request(request_) == (None if key is None else slot_of(key))


def test_a_request_whose_end_is_missing_has_its_first_key() -> None:
    step = keys.pack(script.ATTEMPT.start, keys.main_key("ht", "thing"))
    assert first_key(step) == b"ht:{thing}"


def test_only_reads_of_several_slots_are_taken_apart() -> None:
    assert mget_keys(command("MGET", "a", "b")) == [b"a", b"b"]
    assert mget_keys(command("MGET", "{x}a", "{x}b")) is None
    assert mget_keys(command("GET", "a")) is None


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("MOVED 7 10.0.0.1:7000", (7, ("10.0.0.1", 7000), False)),
        ("ASK 7 [::1]:7000", (7, ("::1", 7000), True)),
        ("MOVED 7 :7000", (7, ("asked", 7000), False)),
        ("MOVED nonsense", None),
        ("TRYAGAIN Multiple keys request during rehashing of slot", None),
    ],
)
def test_redirections_are_read(said: str, found: object) -> None:
    assert redirection(said, "asked") == found


def test_the_slots_are_read() -> None:
    reply = [[0, 99, [b"a", 1, b"id"], [b"b", 2, b"id"]], [100, SLOTS - 1, [b"", 3, b"id"]]]
    table, nodes = read_slots(reply, "asked")
    assert (table[0], table[99], table[100]) == (("a", 1), ("a", 1), ("asked", 3))
    assert nodes == {("a", 1), ("b", 2), ("asked", 3)}


def test_most_nodes_are_believed_and_among_equals_the_one_that_claims_the_slot() -> None:
    a, b, c = ("a", 1), ("b", 1), ("c", 1)

    def table(of: Endpoint) -> list[Endpoint | None]:
        return [of, *([None] * (SLOTS - 1))]

    assert agreed_on({a: table(a), b: table(b), c: table(b)})[0] == b
    assert agreed_on({b: table(b), c: table(a)})[0] == b
    assert agreed_on({c: table(a), b: table(b)})[0] == b


def test_bells_of_the_sharded_form_ring_in_the_slot_of_the_lock() -> None:
    request = keys.pack(script.RELEASE.start, b"ht:{a}")
    other = sharded(request)
    assert other != request
    assert len(other) == len(request)
    assert sharded(other) == other
    body = with_script_body(other)
    assert b"'SPUBLISH', main .. ':' .. " in body
    assert b"'PUBLISH'" not in body


def test_the_alarm_of_a_forced_release_stays_a_message_to_all_nodes() -> None:
    from holdtight.stores.redis.forcing import FORCE

    body = with_script_body(sharded(FORCE.request([b"ht:{a}"] * 5, *[b""] * 6)))
    assert body.count(b"'PUBLISH', found[i].alarm") == 1
    assert body.count(b"'PUBLISH'") == 1


def test_a_script_without_bells_has_one_form() -> None:
    request = script.INSPECT.start
    assert sharded(request) == request
