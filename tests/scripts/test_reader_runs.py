"""Readers that wait side by side come in together: which are rung, which confirm, and where a run ends."""

from __future__ import annotations

from holdtight.stores.memory.engine import CLAIM
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, Inbox, fence_of, in_line, owner, sharing

ERIN, FRANK = owner("erin"), owner("frank")
NOBODY_LISTENS = b"an inbox without a listener"


def test_a_run_of_readers_is_granted_at_once_with_one_bell_each(desk: Desk, inbox: Inbox) -> None:
    fence = fence_of(desk.attempt(ALICE))
    for who in (BOB, CAROL, DAVE):
        desk.read(who, inbox=INBOX)
    desk.attempt(ERIN, inbox=INBOX)
    desk.read(FRANK, inbox=INBOX)
    assert desk.release(ALICE) == 1
    bells = [b"g" + BOB, b"g" + CAROL, b"g" + DAVE, b"n" + ERIN + b"%d" % CLAIM]
    assert inbox.bells() == bells, "and the writer behind them is told when their claims end"
    state = desk.state()
    assert state.mode == "r"
    assert state.flagged
    fences = [each.fence for each in sorted(state.holders, key=lambda each: each.fence)]
    assert sharing(desk) == [BOB, CAROL, DAVE]
    assert fence < fences[0] < fences[1] < fences[2] == state.fence
    assert in_line(desk) == [BOB, CAROL, DAVE, ERIN, FRANK]
    assert [entry.passed_over for entry in state.line] == [True, True, True, False, False]


def test_each_of_a_run_confirms_for_itself(desk: Desk) -> None:
    desk.attempt(ALICE)
    for who in (BOB, CAROL):
        desk.read(who)
    desk.release(ALICE)
    fences = {each.owner: each.fence for each in desk.state().holders}
    for who in (CAROL, BOB):
        assert desk.read(who, ttl=30_000)[:2] == [1, b"%d" % fences[who]]
    assert in_line(desk) == []
    assert all(each.expiry > desk.now() + 29_000 for each in desk.state().holders)


def test_the_runner_up_is_told_of_the_longest_claim(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    for who, ttl in ((BOB, 120), (CAROL, 300), (DAVE, 50)):
        desk.read(who, ttl=ttl, inbox=INBOX)
    desk.attempt(ERIN, inbox=INBOX)
    desk.release(ALICE)
    assert inbox.bells()[-1] == b"n" + ERIN + b"300"
    left = {each.owner: each.expiry - desk.now() for each in desk.state().holders}
    assert all(0 < left[who] <= ttl for who, ttl in ((BOB, 120), (CAROL, 300), (DAVE, 50)))


def test_a_claim_that_is_missed_frees_only_its_own_place(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    for who in (BOB, CAROL):
        desk.read(who)
    desk.attempt(DAVE, inbox=INBOX)
    desk.release(ALICE)
    desk.read(CAROL)
    desk.pass_time(CLAIM + 1)
    assert sharing(desk) == [CAROL]
    assert desk.attempt(DAVE, inbox=INBOX)[:3:2] == [0, CAROL]
    assert in_line(desk) == [BOB, DAVE], "it keeps its place, and is passed over"
    inbox.bells()
    desk.release(CAROL)
    assert inbox.bells() == [b"g" + DAVE]


def test_a_reader_that_cannot_be_reached_is_passed_over_and_the_rest_of_the_run_comes_in(
    desk: Desk, inbox: Inbox
) -> None:
    desk.attempt(ALICE)
    desk.read(BOB, inbox=INBOX)
    desk.read(CAROL, inbox=NOBODY_LISTENS)
    desk.read(DAVE, inbox=INBOX)
    desk.release(ALICE)
    assert inbox.bells() == [b"g" + BOB, b"g" + DAVE]
    assert sharing(desk) == [BOB, DAVE]
    assert fence_of(desk.read(CAROL)), "a reader that asks still finds readers only"


def test_the_first_of_a_run_that_finds_it_free_lets_the_others_in_too(desk: Desk, inbox: Inbox) -> None:
    """The writer was killed: no release came, and only the first of them asks at that moment."""
    desk.attempt(ALICE, ttl=1_000)
    for who in (BOB, CAROL, DAVE):
        desk.read(who, inbox=INBOX)
    desk.attempt(ERIN, inbox=INBOX)
    desk.pass_time(1_001)
    granted, _, _, expired = desk.read(BOB, inbox=INBOX)
    assert (granted, expired) == (1, ALICE)
    assert sharing(desk) == [BOB, CAROL, DAVE]
    assert inbox.bells() == [b"g" + CAROL, b"g" + DAVE, b"n" + ERIN + b"%d" % CLAIM]


def test_a_newcomer_that_finds_it_free_lets_the_run_before_it_in_and_comes_in_too(desk: Desk, inbox: Inbox) -> None:
    desk.attempt(ALICE, ttl=1_000)
    for who in (BOB, CAROL):
        desk.read(who, inbox=INBOX)
    desk.pass_time(1_001)
    assert fence_of(desk.read(DAVE))
    assert sharing(desk) == [BOB, CAROL, DAVE]
    assert inbox.bells() == [b"g" + BOB, b"g" + CAROL]


def test_a_run_ends_at_a_writer_also_for_a_stranger(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=1_000)
    desk.read(BOB)
    desk.attempt(CAROL)
    desk.pass_time(1_001)
    assert desk.read(DAVE)[0] == 0
    assert sharing(desk) == [BOB]
