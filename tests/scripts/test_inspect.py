"""inspect.lua: sees all, changes nothing."""

from __future__ import annotations

import pytest

from holdtight.stores.memory.engine import HEARTBEAT, TAIL
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, fence_of, read_entry, read_holder


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


def test_readers_in_the_order_of_their_fences(desk: Desk) -> None:
    fences = [
        fence_of(desk.read(who, ttl=ttl, label=label))
        for who, ttl, label in ((ALICE, 20_000, "a"), (BOB, 30_000, "b"), (CAROL, 10_000, ""))
    ]
    desk.attempt(DAVE)
    before = desk.dump()
    now, value, left, sharing, line, waiting, living = desk.inspect()
    assert value == b"s1q%d" % fences[-1]
    assert 29_000 < left <= 30_000
    holders = [read_holder(sharing[at], sharing[at + 1], now + sharing[at + 2]) for at in (0, 3, 6)]
    assert [(each.owner, each.fence, each.label) for each in holders] == [
        (ALICE, fences[0], b"a"),
        (BOB, fences[1], b"b"),
        (CAROL, fences[2], b""),
    ]
    assert [19_000 < sharing[2] <= 20_000, 9_000 < sharing[8] <= 10_000] == [True, True]
    assert (line[::2], waiting, living) == ([DAVE], 1, 3)
    assert desk.dump() == before


def test_permits_and_who_waits_for_how_many(desk: Desk) -> None:
    desk.permit(ALICE, 2, of=3)
    desk.permit(BOB, 2, of=3, label="wartet")
    now, value, _, sharing, line, _, living = desk.inspect()
    assert value[:3] == b"p1q"
    alice = read_holder(sharing[0], sharing[1], now + sharing[2])
    assert (alice.owner, alice.mode, alice.n) == (ALICE, "p", 2)
    bob = read_entry(*line)
    assert (bob.owner, bob.mode, bob.n, bob.permits, bob.label) == (BOB, "p", 2, 3, b"wartet")
    assert living == 1


def test_dead_holders_among_sharers_are_not_shown(desk: Desk) -> None:
    desk.read(ALICE, ttl=1_000)
    desk.read(BOB, ttl=2_000)
    desk.pass_time(1_001)
    _, _, left, sharing, *_, living = desk.inspect()
    assert (sharing[0::3], living) == ([BOB], 1)
    desk.pass_time(1_000)
    _, value, left, sharing, *_, living = desk.inspect()
    assert (value[:2], left, sharing, living) == (b"s1", 0, [], 0)


def test_only_so_many_sharers_are_shown_but_all_are_counted(desk: Desk) -> None:
    for who in (ALICE, BOB, CAROL):
        desk.read(who)
    _, _, _, sharing, *_, living = desk.inspect(most=2)
    assert (len(sharing), living) == (6, 3)


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
