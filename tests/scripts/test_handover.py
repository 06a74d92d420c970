"""Which waiter gets a free lock, which are rung, and which are passed over: all scripts together."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from holdtight.stores.memory.engine import CLAIM, FRESH, HEARTBEAT, TAIL
from holdtight.stores.redis import script
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, HANDED_ON, Desk, Inbox, fence_of
from tests.support.servers import RunningServer

NOBODY_LISTENS = b"an inbox without a listener"


def line_up(desk: Desk, *waiters: bytes, inbox: bytes = INBOX) -> int:
    """ALICE holds, the others stand in line; returns its fence."""
    fence = fence_of(desk.attempt(ALICE))
    for who in waiters:
        assert desk.attempt(who, inbox=inbox)[0] == 0
    return fence


def holder(desk: Desk) -> bytes | None:
    """The live holder."""
    return desk.state().owner if desk.time_left(desk.keys.main) > TAIL else None


def in_line(desk: Desk) -> list[tuple[bytes, bool]]:
    return [(entry.owner, entry.passed_over) for entry in desk.state().line]


def test_a_release_gives_the_lock_to_the_first_in_line_and_rings_it_first(desk: Desk, inbox: Inbox) -> None:
    fence = line_up(desk, BOB, CAROL, DAVE)
    assert desk.release(ALICE) in HANDED_ON
    assert inbox.bells()[0] == b"g" + BOB
    state = desk.state()
    assert state.owner == BOB
    assert state.fence > fence
    assert state.flagged


def test_the_waiter_that_was_given_it_confirms_and_keeps_the_fence(desk: Desk, inbox: Inbox) -> None:
    line_up(desk, BOB, CAROL)
    desk.release(ALICE)
    fence = desk.state().fence
    assert desk.attempt(BOB, ttl=30_000)[:2] == [1, b"%d" % fence]
    assert in_line(desk) == [(CAROL, False)]
    assert desk.time_left(desk.keys.main) > 29_000 + TAIL


def test_the_label_of_a_waiter_goes_with_the_lock(desk: Desk) -> None:
    desk.attempt(ALICE)
    desk.attempt(BOB, label="nächster")
    desk.release(ALICE)
    assert desk.state().value.endswith("nächster".encode())


@pytest.mark.parametrize(("ttl", "window"), [(30_000, CLAIM), (120, 120)])
def test_a_claim_must_be_made_within_its_window(desk: Desk, ttl: int, window: int) -> None:
    line_up(desk)
    desk.attempt(BOB, ttl=ttl)
    desk.release(ALICE)
    assert 0 < desk.time_left(desk.keys.main) - TAIL <= window


def test_the_runner_up_is_told_when_the_claim_of_the_first_lapses(desk: Desk, inbox: Inbox) -> None:
    line_up(desk)
    desk.attempt(BOB, ttl=120, inbox=INBOX)
    desk.attempt(CAROL, inbox=NOBODY_LISTENS)
    desk.attempt(DAVE, inbox=INBOX)
    desk.pass_time(FRESH)
    assert desk.release(ALICE) == 1
    assert inbox.bells() == [b"g" + BOB, b"n" + DAVE + b"120"]
    assert in_line(desk)[1] == (CAROL, False), "a note that does not arrive costs nothing"


def test_a_claim_that_is_missed_costs_one_window_once(desk: Desk, inbox: Inbox) -> None:
    line_up(desk, BOB, CAROL, DAVE)
    desk.release(ALICE)
    desk.pass_time(CLAIM + 1)
    assert fence_of(desk.attempt(CAROL, inbox=INBOX))
    inbox.bells()
    desk.release(CAROL)
    assert inbox.bells()[0] == b"g" + DAVE, "BOB still stands first, but is passed over"
    assert in_line(desk)[0] == (BOB, True)


def test_the_waiter_that_missed_its_turn_may_still_come_first(desk: Desk) -> None:
    line_up(desk, BOB, CAROL, inbox=b"")
    desk.release(ALICE)
    desk.pass_time(CLAIM + 1)
    assert fence_of(desk.attempt(BOB))


def test_a_dead_waiter_is_skipped_and_removed(desk: Desk, inbox: Inbox) -> None:
    line_up(desk, BOB)
    desk.pass_time(HEARTBEAT - 100)
    desk.attempt(CAROL, inbox=INBOX)
    desk.pass_time(200)
    desk.release(ALICE)
    assert inbox.bells() == [b"g" + CAROL]
    assert in_line(desk) == [(CAROL, True)]


def test_a_waiter_whose_inbox_is_gone_is_passed_over_but_keeps_its_place(desk: Desk, inbox: Inbox) -> None:
    line_up(desk)
    desk.attempt(BOB, inbox=NOBODY_LISTENS)
    desk.attempt(CAROL, inbox=INBOX)
    desk.release(ALICE)
    assert inbox.bells() == [b"g" + CAROL]
    assert in_line(desk) == [(BOB, True), (CAROL, True)]
    assert desk.attempt(BOB, inbox=INBOX)[4] == 1
    desk.release(CAROL)
    assert inbox.bells() == [b"g" + BOB]


def test_a_touch_keeps_the_place_of_one_passed_over_but_gives_no_turn(desk: Desk, inbox: Inbox) -> None:
    line_up(desk)
    desk.attempt(BOB, inbox=NOBODY_LISTENS)
    desk.attempt(CAROL, inbox=INBOX)
    desk.release(ALICE)
    assert desk.touch(BOB) == 1
    assert in_line(desk)[0] == (BOB, True)
    inbox.bells()
    desk.release(CAROL)
    assert inbox.bells() == []
    assert holder(desk) is None


def test_if_no_waiter_can_be_reached_the_lock_is_free_for_the_next_caller(desk: Desk) -> None:
    line_up(desk, BOB, CAROL, inbox=NOBODY_LISTENS)
    assert desk.release(ALICE) == 1
    assert holder(desk) is None
    assert fence_of(desk.ask(DAVE))
    assert in_line(desk) == [(BOB, True), (CAROL, True)]


def test_a_polling_waiter_counts_as_reached(desk: Desk) -> None:
    line_up(desk, BOB, inbox=b"")
    desk.release(ALICE)
    assert holder(desk) == BOB


def test_without_the_right_to_publish_the_waiter_counts_as_reached(server: RunningServer, desk: Desk) -> None:
    line_up(desk, BOB, inbox=NOBODY_LISTENS)
    server.add_user("mute", "secret", "~*", "+@all", "resetchannels")
    desk.wire.call("AUTH", "mute", "secret")
    try:
        assert desk.release(ALICE) in HANDED_ON
        assert holder(desk) == BOB
        assert desk.touch(CAROL, INBOX) == 0
    finally:
        server.command("ACL", "DELUSER", "mute")


def test_the_first_in_line_that_finds_it_free_takes_it(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.attempt(BOB)
    desk.attempt(CAROL)
    desk.pass_time(2_001)
    assert fence_of(desk.attempt(BOB))
    assert in_line(desk) == [(CAROL, False)]


@pytest.mark.parametrize("join", [False, True])
def test_a_newcomer_that_finds_it_free_hands_it_to_the_first_in_line(desk: Desk, inbox: Inbox, join: bool) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.attempt(BOB, inbox=INBOX)
    desk.pass_time(2_001)
    no, _, given, left, position, _ = desk.attempt(CAROL) if join else desk.ask(CAROL)
    assert (no, given, position) == (0, BOB, 2 if join else 0)
    assert 0 < left <= CLAIM
    assert inbox.bells() == [b"g" + BOB]


def test_a_waiter_that_finds_it_free_hands_it_to_the_one_before_it(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.attempt(BOB, inbox=INBOX)
    desk.attempt(CAROL, inbox=INBOX)
    desk.pass_time(2_001)
    assert desk.attempt(CAROL, inbox=INBOX)[:3:2] == [0, BOB]
    assert inbox.bells()[0] == b"g" + BOB
    assert in_line(desk) == [(BOB, True), (CAROL, False)]


def test_a_waiter_that_leaves_and_finds_it_free_hands_it_on(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE, ttl=2_000)
    desk.attempt(BOB, inbox=INBOX)
    desk.attempt(CAROL, inbox=INBOX)
    desk.pass_time(2_001)
    assert desk.withdraw(BOB) == 1
    assert inbox.bells() == [b"g" + CAROL]
    assert holder(desk) == CAROL


def test_after_the_main_key_is_gone_the_line_still_counts(desk: Desk, inbox: Inbox) -> None:
    """Evicted, or deleted by hand."""
    line_up(desk, BOB)
    desk.wire.call("DEL", desk.keys.main)
    assert desk.ask(CAROL)[:3:2] == [0, BOB]
    assert inbox.bells() == [b"g" + BOB]


@pytest.mark.parametrize("verb", ["release", "withdraw"])
def test_a_waiter_that_was_given_it_and_does_not_want_it_passes_it_on(desk: Desk, inbox: Inbox, verb: str) -> None:
    line_up(desk, BOB, CAROL)
    desk.release(ALICE)
    fence = desk.state().fence
    inbox.bells()
    assert getattr(desk, verb)(BOB) in HANDED_ON
    assert inbox.bells() == [b"g" + CAROL]
    assert in_line(desk) == [(CAROL, True)]
    assert desk.state().fence > fence


def test_a_claim_is_not_handed_over_a_second_time_while_it_runs(desk: Desk, inbox: Inbox) -> None:
    line_up(desk, BOB, CAROL)
    desk.release(ALICE)
    inbox.bells()
    assert desk.ask(DAVE)[2] == BOB
    assert desk.attempt(CAROL, inbox=INBOX)[2] == BOB
    assert desk.withdraw(CAROL) == 1
    assert desk.release(ALICE) == [0, BOB]
    assert inbox.bells() == []
    assert holder(desk) == BOB


def test_waiters_with_their_own_inboxes_are_rung_there(desk: Desk, listen: Callable[[bytes], Inbox]) -> None:
    bobs, carols = listen(b"bob's"), listen(b"carol's")
    line_up(desk)
    desk.attempt(BOB, inbox=b"bob's")
    desk.attempt(CAROL, inbox=b"carol's")
    desk.pass_time(FRESH)
    desk.release(ALICE)
    assert bobs.bells() == [b"g" + BOB]
    assert carols.bells() == [b"n" + CAROL + b"%d" % CLAIM]


def test_a_waiter_is_rung_before_the_holder_has_its_answer(desk: Desk, listen: Callable[[bytes], Inbox]) -> None:
    """The holder has what it wants; all others wait for the waiter."""
    bobs = listen(b"bob's")
    desk.wire.call("HELLO", 3)
    desk.wire.call("SUBSCRIBE", b"alice's")
    poller = select.poll()
    for wire in (desk.wire, bobs.wire):
        poller.register(wire.socket, select.POLLIN)
    for _ in range(50):
        line_up(desk)
        desk.attempt(BOB, inbox=b"bob's")
        desk.send(script.RELEASE, owner=ALICE, inbox=b"alice's")
        while not (ready := poller.poll(0)):
            pass
        assert bobs.wire.socket.fileno() in [fd for fd, _ in ready]
        # Some servers send pushed messages only after the reply.
        heard = [desk.wire.read(), desk.wire.read()]
        assert 3 in heard
        assert [b"message", b"alice's", b"r"] in heard
        assert bobs.bells() == [b"g" + BOB]
        desk.attempt(BOB)
        assert desk.release(BOB, inbox=b"alice's") == 1, "and nobody is told of anything if nobody waits"


def test_the_order_is_that_of_arrival_for_many(desk: Desk) -> None:
    desk.attempt(ALICE)
    served, turn = [], ALICE
    waiting = [b"%024d" % n for n in range(60)]
    for who in waiting:
        desk.attempt(who)
    for _ in waiting:
        desk.release(turn)
        turn = desk.state().owner or b""
        desk.attempt(turn)
        served.append(turn)
    assert served == waiting
