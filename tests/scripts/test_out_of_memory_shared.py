"""A server out of memory, and the sharers of a name: nothing new is granted, and no lease suffers from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.scripts.conftest import INBOX
from tests.scripts.test_out_of_memory import is_refused, out_of_memory
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, HANDED_ON, Desk, Inbox, fence_of, in_line, sharing

ASKS: dict[str, Callable[..., Any]] = {
    "reader": lambda desk, who, **how: desk.read(who, **how),
    "permit": lambda desk, who, **how: desk.permit(who, **how),
    "permits": lambda desk, who, **how: desk.permit(who, 2, of=6, **how),
}
kinds = pytest.mark.parametrize("kind", ASKS)


@kinds
@pytest.mark.parametrize("situation", ["nothing there", "tombstone", "shared", "shared by all", "marked", "held"])
def test_a_request_fails_and_changes_nothing(desk: Desk, kind: str, situation: str) -> None:
    ask = ASKS[kind]
    if situation == "held":
        desk.attempt(ALICE)
    elif situation != "nothing there":
        ask(desk, ALICE)
    if situation == "tombstone":
        desk.release(ALICE)
    if situation == "shared by all":
        ask(desk, CAROL)
        ask(desk, DAVE)
    if situation == "marked":
        desk.withdraw(CAROL, desk.now() + 2_000)
    before = desk.dump()
    with out_of_memory(desk):
        reply = ask(desk, BOB)
        assert is_refused(reply) or (situation == "held" and kind != "reader" and "HTKIND" in str(reply))
        assert desk.dump() == before


def test_a_writer_can_not_join_the_line_behind_readers(desk: Desk) -> None:
    desk.read(ALICE)
    before = desk.dump()
    with out_of_memory(desk):
        assert is_refused(desk.attempt(BOB))
        assert desk.dump() == before


@kinds
@pytest.mark.parametrize("line", [False, True])
@pytest.mark.parametrize(("ttl", "ordinal"), [(500, 1), (60_000, 0), (60_000, 1)])
def test_a_sharer_can_renew(desk: Desk, kind: str, line: bool, ttl: int, ordinal: int) -> None:
    ASKS[kind](desk, ALICE, ttl=1_000)
    ASKS[kind](desk, BOB, ttl=20_000)
    if line:
        ASKS[kind](desk, CAROL) if kind != "reader" else desk.attempt(CAROL)
    with out_of_memory(desk):
        assert desk.renew(ALICE, ttl=ttl, ordinal=ordinal) == 1
    alice = next(each for each in desk.state().holders if each.owner == ALICE)
    assert ttl - 1_000 < alice.expiry - desk.now() <= ttl
    assert desk.time_left(desk.keys.main) > max(ttl, 20_000) + 9_000


@kinds
@pytest.mark.parametrize("line", [False, True])
def test_an_owner_whose_reply_was_lost_can_ask_again(desk: Desk, kind: str, line: bool) -> None:
    fence = fence_of(ASKS[kind](desk, ALICE))
    if line:
        desk.withdraw(DAVE, desk.now() + 2_000)
    with out_of_memory(desk):
        assert fence_of(ASKS[kind](desk, ALICE, ttl=60_000)) == fence
    assert desk.state().holders[0].expiry > desk.now() + 59_000


@kinds
def test_a_waiter_that_was_let_in_can_confirm(desk: Desk, kind: str) -> None:
    holder = desk.attempt if kind == "reader" else lambda who: desk.permit(who, 6, of=6)
    holder(ALICE)
    for who in (BOB, CAROL):
        ASKS[kind](desk, who)
    desk.release(ALICE)
    fences = {each.owner: each.fence for each in desk.state().holders}
    assert set(fences) == {BOB, CAROL}
    with out_of_memory(desk):
        for who in (BOB, CAROL):
            assert fence_of(ASKS[kind](desk, who)) == fences[who]
    assert in_line(desk) == []


@kinds
def test_a_sharer_can_release(desk: Desk, kind: str) -> None:
    fences = [fence_of(ASKS[kind](desk, who)) for who in (ALICE, BOB)]
    with out_of_memory(desk):
        assert desk.release(ALICE) == 1
        assert sharing(desk) == [BOB]
        assert desk.release(BOB) == 1
        assert desk.state().value == b"t1-%d" % max(fences)
    assert fence_of(desk.ask(CAROL)) > max(fences)


@pytest.mark.parametrize("verb", ["release", "withdraw"])
def test_a_release_lets_a_run_in_and_rings(desk: Desk, inbox: Inbox, verb: str) -> None:
    desk.attempt(ALICE)
    for who in (BOB, CAROL):
        desk.read(who, inbox=INBOX)
    with out_of_memory(desk):
        assert getattr(desk, verb)(ALICE) == 1
        assert inbox.bells() == [b"g" + BOB, b"g" + CAROL]
        assert sharing(desk) == [BOB, CAROL]


@pytest.mark.parametrize("verb", ["release", "withdraw"])
def test_the_last_reader_gives_it_to_the_writer(desk: Desk, inbox: Inbox, verb: str) -> None:
    desk.read(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    with out_of_memory(desk):
        assert getattr(desk, verb)(ALICE) in HANDED_ON
        assert inbox.bells() == [b"g" + BOB]
        assert desk.state().owner == BOB


@kinds
@pytest.mark.parametrize("others", [False, True])
def test_a_grant_is_given_back_with_a_marker_too(desk: Desk, kind: str, others: bool) -> None:
    ASKS[kind](desk, ALICE)
    if others:
        ASKS[kind](desk, BOB)
    with out_of_memory(desk):
        assert desk.withdraw(ALICE, desk.now() + 2_000) == 1
        assert sharing(desk) == ([BOB] if others else [])
        assert ASKS[kind](desk, ALICE)[0] == -3


def test_a_downgrade_fails_and_the_writer_goes_on_writing(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.read(BOB)
    before = desk.dump()
    with out_of_memory(desk):
        assert is_refused(desk.downgrade(ALICE))
        assert desk.dump() == before
        assert desk.renew(ALICE) == 1


def test_a_downgrade_whose_reply_was_lost_can_be_asked_for_again(desk: Desk) -> None:
    desk.attempt(ALICE)
    first = desk.downgrade(ALICE)
    with out_of_memory(desk):
        assert desk.downgrade(ALICE)[:2] == first[:2]


@kinds
def test_inspection_works(desk: Desk, kind: str) -> None:
    ASKS[kind](desk, ALICE)
    with out_of_memory(desk):
        *_, living = desk.inspect()
    assert living == 1
