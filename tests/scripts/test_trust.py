"""Which client checks a claim: the runner-up, or the releaser if the taker was heard of just now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from holdtight.stores.memory.engine import CLAIM, FRESH, HEARTBEAT
from tests.scripts.clockwork import ClockworkDesk
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, Desk, Inbox
from tests.support.servers import RunningServer

NOW = 1_800_000_000_000_000
NOTE = b"n" + CAROL + b"%d" % CLAIM


@pytest.fixture
def desk(server: RunningServer) -> Iterator[ClockworkDesk]:
    with closing(ClockworkDesk(server)) as desk:
        desk.set_clock(NOW)
        yield desk


def pass_time(desk: ClockworkDesk, ms: int) -> None:
    desk.set_clock(desk.now_us() + 1000 * ms)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("heard_by", [Desk.attempt, Desk.touch])
@pytest.mark.parametrize(("ago", "reply"), [(0, 3), (FRESH - 1, 3), (FRESH, 1), (HEARTBEAT - 1, 1)])
def test_a_release_leaves_the_check_of_a_recently_seen_waiter_to_its_caller(
    desk: ClockworkDesk, inbox: Inbox, heard_by: Callable[..., object], shared: bool, ago: int, reply: int
) -> None:
    desk.read(ALICE) if shared else desk.attempt(ALICE)
    desk.attempt(BOB, inbox=INBOX)
    pass_time(desk, 1_000)
    desk.attempt(CAROL, inbox=INBOX)
    heard_by(desk, BOB, inbox=INBOX)
    pass_time(desk, ago)
    assert desk.release(ALICE) == reply
    assert inbox.bells() == [b"g" + BOB] + [NOTE] * (reply == 1)


@pytest.mark.parametrize("verb", [Desk.withdraw, Desk.ask])
def test_all_others_tell_the_runner_up(desk: ClockworkDesk, inbox: Inbox, verb: Callable[..., object]) -> None:
    """A client that withdraws may be closing, and one that asks has handed over no grant of its own."""
    desk.attempt(ALICE, ttl=2_000)
    for who in (BOB, CAROL):
        desk.attempt(who, inbox=INBOX)
    pass_time(desk, 2_001)
    verb(desk, ALICE)
    assert inbox.bells() == [b"g" + BOB, NOTE]


def test_a_look_after_the_claim_has_lapsed_hands_on_to_the_next(desk: ClockworkDesk, inbox: Inbox) -> None:
    desk.attempt(ALICE)
    for who in (BOB, CAROL):
        desk.attempt(who, inbox=INBOX)
    desk.release(ALICE)
    inbox.bells()
    assert desk.withdraw(ALICE) == 1
    assert inbox.bells() == [], "too early"
    pass_time(desk, CLAIM)
    assert desk.withdraw(ALICE) == 1
    assert inbox.bells() == [b"g" + CAROL]
