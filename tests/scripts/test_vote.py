"""One node of a quorum: vote.lua, agree.lua, resign.lua and bless.lua alone, on a real server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from holdtight.stores.redis import script
from holdtight.stores.redis.quorum_store import VOTE
from tests.scripts.nodes import (
    HOLDERS,
    MAIN,
    NAMES,
    SECOND,
    SHORT_CUT,
    STAMP,
    WAITERS,
    WATCHERS,
    ClockworkNode,
    Node,
    fence_of,
)
from tests.scripts.workbench import ALICE, BOB, CAROL, FAR, Inbox
from tests.support.processes import wait_for
from tests.support.raw import ServerSaid

RUN = b"a" * 40
OTHER_RUN = b"b" * 40


def test_the_fence_is_the_one_that_was_proposed(node: Node, mode: str) -> None:
    proposal = node.now() - 5 * SECOND
    assert fence_of(node.vote(ALICE, mode=mode, proposal=proposal)) == proposal


def test_a_fence_is_larger_than_the_last_whatever_is_proposed(node: Node, mode: str) -> None:
    first = fence_of(node.vote(ALICE, mode=mode))
    node.resign(ALICE)
    assert fence_of(node.vote(BOB, mode=mode, proposal=first - 1000)) == first + 1


def test_a_proposal_more_than_a_second_ahead_of_the_clock_is_ignored(node: Node, mode: str) -> None:
    near, far = node.now() + SECOND // 2, node.now() + 100 * SECOND
    assert fence_of(node.vote(ALICE, mode=mode, proposal=near)) == near
    node.resign(ALICE)
    assert fence_of(node.vote(BOB, mode=mode, proposal=far)) < node.now() + SECOND


def test_with_a_short_max_ttl_a_quarter_of_it_is_too_far_ahead(timed: ClockworkNode, mode: str) -> None:
    """A node that restarts empty votes again after max_ttl: its clock must have passed all fences by then."""
    now = timed.at(0)
    near, far = now + SECOND // 4, now + SECOND // 4 + 1
    assert fence_of(timed.vote(ALICE, mode=mode, proposal=near, max_ttl=1000)) == near
    timed.wire.call("DEL", *NAMES)
    assert fence_of(timed.vote(BOB, mode=mode, proposal=far, max_ttl=1000)) == now


@pytest.mark.parametrize(("max_ttl", "behind"), [(60_000, 8 * SECOND), (32_000, 8 * SECOND), (1000, SECOND // 4)])
def test_no_fence_is_far_behind_the_clock_of_the_node_that_gives_it(
    timed: ClockworkNode, mode: str, max_ttl: int, behind: int
) -> None:
    oldest = timed.at(0) - behind
    assert timed.vote(ALICE, mode=mode, proposal=oldest - 1, max_ttl=max_ttl) == [-1, timed.now() // 1000]
    assert timed.wire.call("EXISTS", *NAMES) == 0
    assert fence_of(timed.vote(ALICE, mode=mode, proposal=oldest, max_ttl=max_ttl)) == oldest


def test_a_node_that_has_forgotten_gives_none_of_the_fences_that_it_may_have_given(
    timed: ClockworkNode, mode: str
) -> None:
    start = timed.at(0)
    forgotten = fence_of(timed.vote(ALICE, mode=mode, proposal=start))
    timed.resign(ALICE)
    timed.at(5)
    assert fence_of(timed.vote(BOB, mode=mode, proposal=start - 60 * SECOND)) == forgotten + 1, "remembered yet"
    timed.resign(BOB)
    now = timed.at(15.001)
    assert timed.vote(CAROL, mode=mode, proposal=start - 60 * SECOND)[0] == -1
    assert timed.vote(CAROL, mode=mode, proposal=forgotten + 2)[0] == -1
    assert fence_of(timed.vote(CAROL, mode=mode, proposal=now - 8 * SECOND)) > forgotten + 1


def test_a_fence_that_a_clock_ahead_has_agreed_to_is_not_forgotten_before_the_clock_has_passed_it(
    timed: ClockworkNode, mode: str
) -> None:
    ahead = timed.at(0) + 60 * SECOND
    timed.vote(ALICE, mode=mode, ttl=1000)
    timed.agree(ALICE, ahead)
    timed.at(68)
    assert fence_of(timed.vote(BOB, mode=mode, proposal=ahead - SECOND)) == ahead + 1


def test_an_old_lease_heals_a_node_with_the_fence_that_it_has(timed: ClockworkNode, mode: str) -> None:
    """However old the lease is. And the node does not give the fence that it has forgotten to another owner."""
    old = timed.at(0)
    forgotten = fence_of(timed.vote(BOB, mode=mode, proposal=timed.at(100)))
    timed.resign(BOB)
    timed.at(110.001)
    assert fence_of(timed.renew(ALICE, old, mode=mode)) == old
    assert fence_of(timed.renew(ALICE, old, mode=mode)) == old
    timed.resign(ALICE)
    assert timed.vote(CAROL, mode=mode, proposal=old + SECOND)[0] == -1
    assert fence_of(timed.vote(CAROL, mode=mode)) > forgotten


def test_a_lost_answer_is_asked_for_again_and_is_the_same_however_old_the_proposal_is_by_then(
    timed: ClockworkNode, mode: str
) -> None:
    proposal = timed.at(0)
    first = fence_of(timed.vote(ALICE, mode=mode, ttl=30_000, proposal=proposal))
    timed.at(20)
    assert fence_of(timed.vote(ALICE, mode=mode, ttl=30_000, proposal=proposal)) == first


def test_asked_again_it_is_the_same_vote_with_its_time_set_anew(node: Node, mode: str) -> None:
    first = fence_of(node.vote(ALICE, mode=mode, ttl=1000))
    assert fence_of(node.vote(ALICE, mode=mode, ttl=5000, proposal=first + 100)) == first
    assert node.left() > 14_000


def test_what_is_ours_is_never_shortened(node: Node, mode: str) -> None:
    """A late renewal for less must not undo a newer one for more."""
    node.vote(ALICE, mode=mode, ttl=20_000)
    node.vote(ALICE, mode=mode, ttl=1000)
    assert node.left() > 25_000
    if mode == "r":
        assert float(node.wire.call("ZSCORE", HOLDERS, ALICE)) > node.now() / 1000 + 15_000


def test_a_vote_for_one_owner_denies_others_and_names_it_and_its_time_left(node: Node) -> None:
    node.vote(ALICE)
    verdict, _, holder, left = node.vote(BOB)
    assert (verdict, holder) == (0, ALICE)
    assert 9000 < left <= 10_000
    assert node.vote(BOB, mode="r")[0] == 0


def test_readers_share_a_node_and_a_writer_waits_for_the_last(node: Node) -> None:
    assert fence_of(node.vote(ALICE, mode="r")) < fence_of(node.vote(BOB, mode="r"))
    assert node.vote(CAROL)[0] == 0
    assert node.resign(ALICE) == 1
    assert node.vote(CAROL)[:1] == [0]
    assert node.resign(BOB) == 1
    assert fence_of(node.vote(CAROL))


def test_a_reader_whose_time_is_up_is_in_nobodys_way(node: Node) -> None:
    node.vote(ALICE, mode="r", ttl=1)
    node.server.wait_for("EVAL", "return tonumber(redis.call('TIME')[2]) >= 0 and 1", 0, be=1)
    reply = node.vote(BOB)
    while reply[0] == 0:
        reply = node.vote(BOB)
    assert reply[3] == ALICE, "the previous holder expired"


def test_a_late_vote_does_nothing(node: Node, mode: str) -> None:
    assert node.vote(ALICE, mode=mode, not_after=node.now() - 1)[0] == -1
    assert node.wire.call("EXISTS", MAIN) == 0


def test_a_marker_refuses_a_vote_that_was_withdrawn_before_it_came(node: Node, mode: str) -> None:
    node.withdraw(ALICE, node.now() // 1000 + 2000)
    assert node.vote(ALICE, mode=mode)[0] == -3
    assert node.vote(BOB, mode=mode)[0] == 1


def test_a_withdrawal_says_whether_there_was_a_vote(node: Node, mode: str) -> None:
    assert node.withdraw(ALICE, 0, b"!") == [0, b""]
    node.vote(ALICE, mode=mode)
    assert node.withdraw(BOB, 0, b"!") == [0, ALICE if mode == "x" else b""]
    later = node.now() // 1000 + 2000
    assert node.withdraw(ALICE, later, b"!") == 1
    assert node.withdraw(ALICE, later, b"!") == [0, b""]
    assert node.vote(ALICE, mode=mode)[0] == -3, "the marker counts all the same"
    node.vote(CAROL, mode=mode)
    assert node.withdraw(ALICE, later) == 1, "nobody asks what there was"


def test_a_withdrawal_of_a_reader_that_has_expired_says_so(node: Node) -> None:
    node.vote(BOB, mode="r")
    node.vote(ALICE, mode="r", ttl=-9_999)
    wait_for(lambda: node.wire.call("ZSCORE", HOLDERS, ALICE) is None or _is_past(node, ALICE))
    assert node.withdraw(ALICE, 0, b"!") == [0, b""]


def _is_past(node: Node, who: bytes) -> bool:
    return float(node.wire.call("ZSCORE", HOLDERS, who)) < node.now() / 1000


def test_a_semaphore_under_the_name_is_an_error_that_says_so(node: Node) -> None:
    node.run(script.SHARE, NAMES, "p", 1, 3, 10_000, 20_000, 0, "", b"", FAR, ALICE)
    with pytest.raises(ServerSaid, match="HTKIND a semaphore"):
        node.vote(BOB)


@pytest.mark.parametrize("key", [MAIN, STAMP])
def test_a_foreign_value_is_not_taken_for_ours(node: Node, key: bytes) -> None:
    node.wire.call("SET", key, "something else")
    with pytest.raises(ServerSaid, match="HTFOREIGN"):
        node.vote(ALICE, run=RUN, max_ttl=0)
    assert node.wire.call("GET", key) == b"something else"


# The usual case has a short cut: it must do the same as the rest of the script

SETTINGS: dict[str, Callable[[ClockworkNode], object]] = {
    "nothing": lambda node: None,
    "given back": lambda node: (node.vote(BOB), node.resign(BOB)),
    "given back a moment ago": lambda node: (node.vote(BOB), node.resign(BOB), node.at(0.5)),
    "given back, and the clock set back": lambda node: (node.vote(BOB), node.resign(BOB), node.at(-30)),
    "given back long ago": lambda node: (node.vote(BOB), node.resign(BOB), node.at(15)),
    "held": lambda node: node.vote(BOB),
    "ours": lambda node: node.vote(ALICE),
    "expired": lambda node: (node.vote(BOB, ttl=1000), node.at(2)),
    "read": lambda node: node.vote(BOB, mode="r"),
    "withdrawn before it came": lambda node: node.withdraw(ALICE, node.now() // 1000 + 5000),
    "another's withdrawn": lambda node: node.withdraw(BOB, node.now() // 1000 + 5000),
    "held for a while, and given back": lambda node: (node.vote(BOB), node.at(0.5), node.resign(BOB)),
    "given back in the second before": lambda node: (
        node.at(-0.5),
        node.vote(BOB),
        node.at(-0.4),
        node.resign(BOB),
        node.at(0.99),
    ),
    "given back, and withdrawn before it came": lambda node: (
        node.vote(BOB),
        node.at(0.5),
        node.resign(BOB),
        node.withdraw(ALICE, node.now() // 1000 + 5000),
    ),
    "agreed on a little more, and more is known": lambda node: (
        node.vote(BOB),
        node.at(0.45),
        node.resign(BOB),
        node.at(0.5),
        node.vote(BOB),
        node.agree(BOB, node.now() + 200_000),
        node.resign(BOB),
        node.wire.call("HSET", WAITERS, "f", node.now() + 400_000),
    ),
    "agreed on more": lambda node: (node.vote(BOB), node.agree(BOB, node.now() + 3 * SECOND), node.resign(BOB)),
}
GUARDS: dict[str, Callable[[ClockworkNode], object]] = {
    "without": lambda node: None,
    "blessed": lambda node: node.bless(RUN),
    "blessed for more": lambda node: node.bless(RUN, max_ttl=90_000),
    "of another run": lambda node: node.bless(OTHER_RUN),
    "waiting": lambda node: node.vote(CAROL, run=RUN),
    "waited": lambda node: (node.vote(CAROL, run=RUN), node.at(61)),
}


@pytest.mark.one_flavour
@pytest.mark.parametrize("one_of", [4, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_short_cut_does_what_the_whole_script_does(
    timed: ClockworkNode, setting: str, guard: str, one_of: int
) -> None:
    assert VOTE.body.count(SHORT_CUT) == 1
    asked: list[dict[str, Any]] = [
        {"proposal": ahead, "ttl": ttl, "max_ttl": max_ttl}
        for ahead in (0, -1, 300_000, -300_000, -980_000, -1_200_000, 999_999, 1_000_001, -9 * SECOND)
        for ttl, max_ttl in ((10_000, 60_000), (900, 60_000), (1000, 4000), (1000, 3900))
    ]
    run = b"" if guard == "without" else RUN
    first = [*SETTINGS].index(setting) % one_of  # the settings together ask for all
    for each in [*asked[first::one_of], {"proposal": 0, "not_after": -1}]:
        # The value may come from votes under the guard, and the client may have seen the guard let one pass.
        marked = [(run, False), (run, True)] if guard in ("blessed", "waited") else []
        for before, vouching in [(b"", False), *marked]:
            answers: list[Any] = []
            for whole in (False, True):
                timed.wire.call("FLUSHALL")
                timed.cut, timed.run_id = False, before
                timed.at(0.4)
                GUARDS[guard](timed)
                SETTINGS[setting](timed)
                timed.cut = whole
                now, options = timed.now(), dict(each)
                options["proposal"] += now
                if "not_after" in options:
                    options["not_after"] += now
                reply = timed.vote(ALICE, run=run, vouching=vouching, **options)
                answers.append((reply, timed.everything()))
            assert answers[0] == answers[1], (each, before, vouching)


# The agreed fence


def test_an_agreed_fence_is_written_only_where_still_owned(node: Node, mode: str) -> None:
    began = time.monotonic()
    first = fence_of(node.vote(ALICE, mode=mode))
    before = node.left()
    assert node.agree(ALICE, first + 500) == 1
    assert fence_of(node.vote(ALICE, mode=mode)) == first + 500
    assert node.left() <= before + 10 + 1000 * (time.monotonic() - began)  # no more than a vote gives
    assert node.agree(BOB, first + 900) == 0
    node.resign(ALICE)
    assert node.agree(ALICE, first + 900) == 0
    assert fence_of(node.vote(BOB, mode=mode, proposal=1)) == first + 501


def test_an_agreed_fence_never_lowers_one(node: Node, mode: str) -> None:
    first = fence_of(node.vote(ALICE, mode=mode))
    assert node.agree(ALICE, first - 500) == 1
    assert fence_of(node.vote(ALICE, mode=mode)) == first


def test_a_fence_far_ahead_of_the_clock_outlives_its_holder(node: Node) -> None:
    """Another node's clock is an hour ahead."""
    node.vote(ALICE, ttl=100)
    ahead = node.now() + 3600 * SECOND
    assert node.agree(ALICE, ahead) == 1
    node.wire.call("DEL", MAIN)  # its time is up
    assert fence_of(node.vote(BOB)) == ahead + 1


# Giving a vote back


def test_a_vote_that_is_given_back_leaves_its_fence_for_a_while(node: Node, mode: str) -> None:
    node.vote(ALICE, mode=mode)
    assert node.resign(BOB)[0] == 0
    assert node.resign(ALICE) == 1
    assert 0 < node.left() <= 10_000
    assert node.resign(ALICE) == [0, b""]


def test_some_of_the_denied_waiters_are_rung_and_not_all(node: Node) -> None:
    inbox = Inbox(node.server, b"ht:inbox:test")
    node.vote(ALICE)
    waiters = [bytes([65 + number]) * 24 for number in range(6)]
    for each in waiters:
        assert node.vote(each, inbox=b"ht:inbox:test")[0] == 0
    assert 0 < node.left(WATCHERS) <= 5000
    node.resign(ALICE)
    rung = inbox.bells()
    assert len(rung) == 3
    assert {each[1:] for each in rung} <= set(waiters)
    inbox.close()


def test_a_lease_that_is_renewed_in_vain_is_not_rung(node: Node) -> None:
    node.vote(ALICE)
    assert node.renew(BOB, node.now(), inbox=b"ht:inbox:test")[0] == 0
    assert node.wire.call("EXISTS", WATCHERS) == 0
