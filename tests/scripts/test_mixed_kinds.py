"""One name is one thing at a time: a lock with its readers, or a semaphore; and free names may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdtight.stores.memory.engine import HEARTBEAT, SWEEP
from tests.scripts.conftest import INBOX
from tests.scripts.workbench import ALICE, BOB, CAROL, DAVE, Desk, Inbox, fence_of, in_line, owner, sharing
from tests.support.raw import ServerSaid

Ask = Callable[..., Any]
ASKS: dict[str, Ask] = {
    "x": lambda desk, who, **how: desk.attempt(who, **how),
    "r": lambda desk, who, **how: desk.read(who, **how),
    "p": lambda desk, who, **how: desk.permit(who, **how),
}
USES = {"x": "an exclusive lock", "r": "a read-write lock", "p": "a semaphore"}
CLASHES = [("x", "p"), ("r", "p"), ("p", "x"), ("p", "r")]
clashes = pytest.mark.parametrize(("there", "asked"), CLASHES)


def is_refused(reply: Any, use: str) -> bool:
    return isinstance(reply, ServerSaid) and str(reply) == f"HTKIND {USES[use]}"


@clashes
@pytest.mark.parametrize("limit", [0, 100])
def test_a_name_that_is_held_as_another_kind_says_so_and_nothing_is_written(
    desk: Desk, there: str, asked: str, limit: int
) -> None:
    ASKS[there](desk, ALICE)
    before = desk.dump()
    assert is_refused(ASKS[asked](desk, BOB, limit=limit), there)
    assert desk.dump() == before


@clashes
def test_so_does_one_that_others_wait_for(desk: Desk, there: str, asked: str) -> None:
    """The holder's time is up: only the line shows the kind of the name."""
    holder = "x" if there == "r" else there
    ASKS[holder](desk, ALICE, ttl=2_000, **({"of": 1} if holder == "p" else {}))
    assert ASKS[there](desk, BOB, **({"of": 1} if there == "p" else {}))[0] == 0
    desk.pass_time(2_001)
    before = desk.dump()
    assert is_refused(ASKS[asked](desk, CAROL), there)
    assert desk.dump() == before


@clashes
def test_so_does_one_whose_only_waiter_is_passed_over(desk: Desk, there: str, asked: str) -> None:
    holder = "x" if there == "r" else there
    ASKS[holder](desk, ALICE, **({"of": 1} if holder == "p" else {}))
    ASKS[there](desk, BOB, inbox=b"nobody listens", **({"of": 1} if there == "p" else {}))
    desk.release(ALICE)
    assert is_refused(ASKS[asked](desk, CAROL), there)


def test_the_first_live_waiter_of_a_line_decides(desk: Desk) -> None:
    desk.attempt(ALICE, ttl=HEARTBEAT)
    desk.attempt(BOB)
    desk.pass_time(HEARTBEAT - 100)
    desk.read(CAROL)
    desk.pass_time(2_001)
    assert is_refused(desk.permit(DAVE), "r")


@clashes
@pytest.mark.parametrize("end", ["released", "expired", "withdrawn", "forgotten"])
def test_a_name_that_is_free_may_change(desk: Desk, there: str, asked: str, end: str) -> None:
    fence = fence_of(ASKS[there](desk, ALICE, ttl=1_000))
    if end == "released":
        desk.release(ALICE)
    elif end == "withdrawn":
        desk.withdraw(ALICE, desk.now() + 2_000)
    else:
        desk.pass_time(1_001 if end == "expired" else 20_000)
    reply = ASKS[asked](desk, BOB)
    assert fence_of(reply) > fence
    assert desk.state().mode == asked
    assert (reply[3] if isinstance(reply, list) else b"") == (ALICE if end == "expired" else b"")
    assert not (asked == "x" and desk.state().holders)


@clashes
def test_a_name_whose_waiters_are_all_dead_may_change(desk: Desk, there: str, asked: str) -> None:
    holder = "x" if there == "r" else there
    ASKS[holder](desk, ALICE, ttl=HEARTBEAT + 10_000, **({"of": 1} if holder == "p" else {}))
    desk.crowd(3, dead=True, mode=there)
    desk.withdraw(CAROL, desk.now() + 60_000)
    desk.release(ALICE)
    assert fence_of(ASKS[asked](desk, BOB))
    assert in_line(desk) == []


@pytest.mark.parametrize(("first", "then"), [("p", "x"), ("r", "p"), ("p", "r"), ("r", "x")])
def test_while_some_of_many_dead_are_still_to_be_cleared_a_name_does_not_change(
    desk: Desk, first: str, then: str
) -> None:
    """A clock that is set back would bring them back to life."""
    ASKS[first](desk, ALICE, ttl=1_000)
    desk.crowd_in(2 * SWEEP, mode=first, dead=True)
    desk.pass_time(1_001)
    replies = [ASKS[then](desk, BOB) for _ in range(3)]
    assert [reply[0] for reply in replies] == [0, 0, 1]
    assert [reply[2:] for reply in replies[:2]] == [[b"", 0, 1, 0]] * 2, "nobody holds it: look again at once"


def test_writers_and_readers_wait_in_one_line(desk: Desk, inbox: Inbox) -> None:
    """rwlock.write and lock are the same claim."""
    desk.attempt(ALICE)
    desk.read(BOB, inbox=INBOX)
    desk.attempt(CAROL, inbox=INBOX)
    desk.read(DAVE, inbox=INBOX)
    assert in_line(desk) == [BOB, CAROL, DAVE]
    served = []
    for who in (ALICE, BOB, CAROL, DAVE):
        desk.release(who)
        served += [bell[1:] for bell in inbox.bells() if bell.startswith(b"g")]
        for each in served[-1:]:
            ASKS["x" if each == CAROL else "r"](desk, each)
    assert served == [BOB, CAROL, DAVE]


@pytest.mark.parametrize("asked", ["x", "r", "p"])
@pytest.mark.parametrize("there", ["r", "p"])
def test_after_the_main_key_is_gone_sharers_still_count(desk: Desk, there: str, asked: str) -> None:
    """Evicted, or deleted by hand. The other keys show the kind of the name."""
    for who in (ALICE, BOB):
        ASKS[there](desk, who, ttl=20_000)
    desk.wire.call("DEL", desk.keys.main)
    reply = ASKS[asked](desk, CAROL)
    if (asked == "p") != (there == "p"):
        assert is_refused(reply, there)
    elif asked == "r":
        assert fence_of(reply)
        assert sharing(desk) == [ALICE, BOB, CAROL]
        assert desk.time_left(desk.keys.main) > 20_000
    else:
        assert reply[0] == 0
        assert reply[2] == (BOB if asked == "x" else ALICE)


@pytest.mark.parametrize("there", ["r", "p"])
def test_after_the_main_key_is_gone_a_sharer_can_withdraw(desk: Desk, there: str, inbox: Inbox) -> None:
    who = ASKS[there]
    who(desk, ALICE, **({"of": 1} if there == "p" else {}))
    ASKS["x" if there == "r" else "p"](desk, BOB, inbox=INBOX, **({"of": 1} if there == "p" else {}))
    desk.wire.call("DEL", desk.keys.main)
    assert desk.withdraw(ALICE) == 1
    assert inbox.bells() == [b"g" + BOB]


def test_names_of_different_kinds_do_not_meet(desk: Desk) -> None:
    others = [Desk(desk.server, name) for name in ("another", "a third")]
    desk.attempt(ALICE)
    assert fence_of(others[0].read(ALICE))
    assert fence_of(others[1].permit(ALICE))
    for other in others:
        other.close()


def test_an_owner_that_asks_in_another_mode_is_not_taken_for_the_holder(desk: Desk) -> None:
    desk.read(ALICE)
    assert desk.attempt(ALICE)[:3:2] == [0, ALICE]
    desk.withdraw(ALICE)
    desk.attempt(ALICE)
    assert desk.read(ALICE)[:3:2] == [0, ALICE]
    assert owner("nobody") not in sharing(desk)
