"""inspect.lua: sees all, changes nothing."""

from __future__ import annotations

import pytest

from holdtight.memory.engine import HEARTBEAT, TAIL
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, read_entry


def test_a_name_that_was_never_used(desk: Desk) -> None:
    now = desk.now()
    told, value, left, sharing, line, waiting, living = desk.inspect()
    assert now <= told <= desk.now()
    assert (value, left, sharing, line, waiting, living) == (b"", 0, [], [], 0, 0)


def test_a_held_name_with_a_line(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=20_000, label="wer")
    desk.attempt(BOB, label="erster")
    desk.attempt(CAROL)
    before = desk.dump()
    _, value, left, sharing, line, waiting, living = desk.inspect()
    assert value == desk.state().value
    assert 19_000 < left <= 20_000
    assert line[::2] == [BOB, CAROL]
    assert read_entry(*line[:2]).label == b"erster"
    assert (sharing, waiting, living) == ([], 2, 1)
    assert desk.dump() == before


def test_the_dead_in_line_are_not_shown(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB)
    desk.pass_time(HEARTBEAT - 100)
    desk.attempt(CAROL)
    desk.pass_time(200)
    assert desk.inspect()[4][::2] == [CAROL]


def test_only_so_many_are_shown_but_all_are_counted(desk: Desk) -> None:
    desk.attempt(ALICE)
    for who in (BOB, CAROL, DAVE):
        desk.attempt(who)
    _, _, _, _, line, waiting, _ = desk.inspect(most=2)
    assert line[::2] == [BOB, CAROL]
    assert waiting == 3


@pytest.mark.parametrize("released", [False, True])
def test_a_name_that_is_over_has_no_time_left(desk: Desk, released: bool) -> None:
    desk.attempt(ALICE, ttl=1_000)
    if released:
        desk.release(ALICE)
    else:
        desk.pass_time(1_001)
    _, value, left, *_ = desk.inspect()
    assert value[:2] == (b"t1" if released else b"x1")
    assert -TAIL < left <= 0
