"""The scripts of sessions when their requests arrive late: they have no arrival limit, and docs/safety.md says why."""

from __future__ import annotations

from typing import Any

from holdtight.stores.redis.sessions import BEAT, ENROL, OPEN, STRIKE
from tests.scripts.workbench import ALICE, Desk

SESSION, CLIENT = b"ht:session:1", b"ht:client:1"
ABOUT = b'{"proof":"me"}'
TTL = 30_000
MOST = 100


def call(desk: Desk, script: Any, *args: Any) -> Any:
    keys = (SESSION, CLIENT)[: len(script.keys)]
    return desk.wire.call("EVAL", desk.text_of(script), len(keys), *keys, *args)


def opened(desk: Desk) -> Any:
    return call(desk, OPEN, TTL, ABOUT)


def enrolled(desk: Desk, state: str, fence: int, most: int) -> Any:
    return call(desk, ENROL, "me", ALICE, f"{state}x000000001{fence:016d}name", most)


def struck(desk: Desk, fence: int) -> Any:
    return call(desk, STRIKE, ALICE, f"{fence:016d}")


def entry(desk: Desk) -> bytes | None:
    found: bytes | None = desk.wire.call("HGET", SESSION, ALICE)
    return found


def test_a_late_opening_changes_no_owner_and_shortens_nothing(desk: Desk) -> None:
    opened(desk)
    enrolled(desk, "h", 7, MOST)
    before = desk.wire.call("HGETALL", SESSION)
    opened(desk)
    assert desk.wire.call("HGETALL", SESSION) == before
    assert desk.time_left(SESSION) > TTL - 1_000


def test_a_late_opening_of_a_closed_session_leaves_one_without_owners_that_expires(desk: Desk) -> None:
    opened(desk)
    enrolled(desk, "h", 7, MOST)
    desk.wire.call("DEL", SESSION)
    opened(desk)
    assert desk.wire.call("HLEN", SESSION) == 2
    assert 0 < desk.time_left(SESSION) <= TTL


def test_a_late_beat_brings_no_session_back(desk: Desk) -> None:
    opened(desk)
    desk.wire.call("DEL", SESSION)
    assert call(desk, BEAT, "me") == 0
    assert desk.wire.call("EXISTS", SESSION) == 0


def test_a_late_entry_brings_no_grant_back_and_replaces_no_later_one(desk: Desk) -> None:
    opened(desk)
    enrolled(desk, "w", 0, MOST)
    enrolled(desk, "h", 9, 0)
    enrolled(desk, "h", 7, 0)
    enrolled(desk, "w", 0, MOST)
    assert (entry(desk) or b"")[:27] == b"hx000000001%016d" % 9
    struck(desk, 9)
    assert enrolled(desk, "h", 9, 0) == -2
    assert entry(desk) is None
    desk.wire.call("DEL", SESSION)
    assert enrolled(desk, "w", 0, MOST) == 0


def test_a_late_entry_of_a_place_that_was_left_is_only_a_place(desk: Desk) -> None:
    opened(desk)
    enrolled(desk, "w", 0, MOST)
    struck(desk, 0)
    enrolled(desk, "w", 0, MOST)
    assert (entry(desk) or b"")[:1] == b"w"
    assert struck(desk, 0) == 1


def test_a_late_strike_leaves_a_later_grant(desk: Desk) -> None:
    opened(desk)
    enrolled(desk, "h", 9, MOST)
    assert struck(desk, 0) == struck(desk, 7) == 0
    assert (entry(desk) or b"")[:1] == b"h"


def test_a_loss_that_is_found_late_is_not_written_over_what_is_later(desk: Desk) -> None:
    opened(desk)
    enrolled(desk, "h", 7, MOST)
    assert enrolled(desk, "e", 7, 0) == [1, TTL]
    enrolled(desk, "h", 9, 0)
    assert enrolled(desk, "e", 7, 0) == [0, TTL]
    struck(desk, 9)
    enrolled(desk, "w", 0, MOST)
    for lost in "etf":
        assert enrolled(desk, lost, 9, 0) == [0, TTL]
    assert (entry(desk) or b"")[:1] == b"w"
    assert enrolled(desk, "h", 11, 0) == [1, TTL]


def test_an_entry_keeps_the_record_of_the_client_and_makes_none(desk: Desk) -> None:
    opened(desk)
    enrolled(desk, "w", 0, MOST)
    assert desk.wire.call("EXISTS", CLIENT) == 0
    desk.wire.call("SET", CLIENT, "{}", "PX", 1_000)
    enrolled(desk, "w", 0, MOST)
    assert TTL - 1_000 < desk.time_left(CLIENT) <= TTL
