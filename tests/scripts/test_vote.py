"""One node of a quorum: vote.lua, agree.lua, resign.lua and bless.lua alone, on a real server."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from holdtight.redis import keys, script
from holdtight.redis.ballot import AGREE, BLESS, RESIGN, VOTE
from holdtight.redis.script import Script
from tests.scripts.clockwork import on_test_clock
from tests.scripts.workbench import ALICE, BOB, CAROL, FAR, Inbox, Wire
from tests.support.raw import ServerSaid
from tests.support.servers import RunningServer

RUN = b"a" * 40
OTHER_RUN = b"b" * 40
SECOND = 1_000_000
NAMES = keys.keys_of("ht", "name")
MAIN, QUEUE, WAITERS, HOLDERS = NAMES
WATCHERS, STAMP = keys.watchers(MAIN), keys.stamp("ht")


class Node:
    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.wire = Wire(server)

    def run(self, asked: Script, names: tuple[bytes, ...], *args: Any) -> Any:
        return self.wire.call("EVAL", asked.body, len(names), *names, *args)

    def vote(
        self,
        who: bytes,
        *,
        mode: str = "x",
        ttl: int = 10_000,
        proposal: int | None = None,
        max_ttl: int = 60_000,
        inbox: bytes = b"",
        run: bytes = b"",
        not_after: int = FAR,
    ) -> Any:
        fence = self.now() if proposal is None else proposal
        names = (*NAMES, WATCHERS, STAMP)
        return self.run(VOTE, names, mode, ttl, ttl + 10_000, "", max_ttl, who, fence, inbox, run, not_after, who)

    def agree(self, who: bytes, fence: int) -> Any:
        return self.run(AGREE, NAMES, who, fence, 10_000)

    def resign(self, who: bytes) -> Any:
        return self.run(RESIGN, (*NAMES, WATCHERS), who)

    def withdraw(self, who: bytes, marker: int = 0) -> Any:
        return self.run(script.WITHDRAW, NAMES, who, marker)

    def bless(self, run: bytes, *, max_ttl: int = 60_000, not_after: int = FAR) -> Any:
        return self.run(BLESS, (STAMP,), max_ttl, b"", run, not_after)

    def now(self) -> int:
        seconds, micros = self.wire.call("TIME")
        return int(seconds) * SECOND + int(micros)

    def left(self, key: bytes = MAIN) -> int:
        return int(self.wire.call("PTTL", key))


@pytest.fixture
def node(server: RunningServer) -> Any:
    node = Node(server)
    yield node
    node.wire.close()


@pytest.fixture(params=["x", "r"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fence_of(reply: Any) -> int:
    assert reply[0] == 1, reply
    return int(reply[1])


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


def test_a_fence_comes_after_all_that_the_node_may_have_forgotten(node: Node, mode: str) -> None:
    """Ten seconds after its clock has passed a fence the node knows nothing of it: an old proposal might be lower."""
    start = node.now()
    assert fence_of(node.vote(ALICE, mode=mode, proposal=start - 60 * SECOND)) > start - 10 * SECOND


class ClockworkNode(Node):
    """By a clock that the test sets, in seconds."""

    def at(self, seconds: float) -> int:
        now = int(1_800_000_000 * SECOND + seconds * SECOND)
        self.wire.call("SET", "~clock", now)
        return now

    def run(self, asked: Script, names: tuple[bytes, ...], *args: Any) -> Any:
        return self.wire.call("EVAL", on_test_clock(asked.body), len(names), *names, *args)


def test_an_old_lease_that_heals_a_node_does_not_take_its_fences_back(server: RunningServer, mode: str) -> None:
    """As the model has it (models/fence.pml, HEAL_FORGETS): the node forgets a fence, a late renewal of a lease before
    that makes a key again, and then somebody asks whose idea of the time is old."""
    node = ClockworkNode(server)
    with closing(node.wire):
        old = node.at(0)
        forgotten = fence_of(node.vote(BOB, mode=mode, proposal=node.at(100)))
        node.resign(BOB)
        node.at(110.1)
        node.vote(ALICE, mode=mode, proposal=old)
        node.resign(ALICE)
        assert fence_of(node.vote(CAROL, mode=mode, proposal=old + SECOND)) > forgotten


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


def test_a_vote_for_one_is_a_no_to_others_and_says_who_and_how_long(node: Node) -> None:
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


# The agreed fence


def test_an_agreed_fence_is_written_only_where_still_owned(node: Node, mode: str) -> None:
    first = fence_of(node.vote(ALICE, mode=mode))
    before = node.left()
    assert node.agree(ALICE, first + 500) == 1
    assert fence_of(node.vote(ALICE, mode=mode)) == first + 500
    assert node.left() <= before + 10
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


# Giving back


def test_a_vote_that_is_given_back_leaves_its_fence_for_a_while(node: Node, mode: str) -> None:
    node.vote(ALICE, mode=mode)
    assert node.resign(BOB)[0] == 0
    assert node.resign(ALICE) == 1
    assert 0 < node.left() <= 10_000
    assert node.resign(ALICE) == [0, b""]


def test_some_of_those_who_were_denied_are_rung_and_not_all(node: Node) -> None:
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


# The guard


def test_a_node_without_a_stamp_votes_when_max_ttl_has_passed(node: Node) -> None:
    verdict, _, left = node.vote(ALICE, run=RUN, max_ttl=60_000)
    assert verdict == -4
    assert 59_000 < left <= 60_000
    assert node.wire.call("EXISTS", MAIN) == 0
    assert node.left(STAMP) == -1, "the only key that stays for ever"
    _age(node, 59_000)
    assert node.vote(ALICE, run=RUN)[0] == -4
    _age(node, 1001)
    assert node.vote(ALICE, run=RUN)[0] == 1


def test_another_run_of_the_server_begins_the_guard_anew(node: Node) -> None:
    node.bless(RUN)
    assert node.vote(ALICE, run=RUN)[0] == 1
    assert node.vote(ALICE, run=OTHER_RUN)[0] == -4
    assert node.vote(ALICE, run=OTHER_RUN)[0] == -4


def test_a_clock_that_was_set_back_begins_the_guard_anew_and_does_not_stretch_it(node: Node) -> None:
    node.vote(ALICE, run=RUN)
    _age(node, -3_600_000)
    assert node.vote(ALICE, run=RUN, max_ttl=60_000)[2] <= 60_000


def test_the_largest_max_ttl_that_was_seen_counts(node: Node) -> None:
    node.vote(ALICE, run=RUN, max_ttl=60_000)
    _age(node, 50_000)
    assert node.vote(ALICE, run=RUN, max_ttl=1)[0] == -4
    assert node.vote(ALICE, run=RUN, max_ttl=100_000)[2] > 45_000
    _age(node, 20_000)
    assert node.vote(ALICE, run=RUN, max_ttl=60_000)[0] == -4


def test_a_blessing_is_for_one_run_and_not_for_the_next(node: Node) -> None:
    node.vote(ALICE, run=RUN)
    assert node.bless(RUN) == 1
    assert node.vote(ALICE, run=RUN)[0] == 1
    assert node.vote(BOB, run=OTHER_RUN)[0] == -4


def test_a_late_blessing_does_nothing(node: Node) -> None:
    """The node may have been flushed since it was meant."""
    assert node.bless(RUN, not_after=node.now() - 1)[0] == -1
    assert node.vote(ALICE, run=RUN)[0] == -4


def test_without_a_run_there_is_no_guard(node: Node) -> None:
    assert node.vote(ALICE)[0] == 1
    assert node.wire.call("EXISTS", STAMP) == 0


def _age(node: Node, ms: int) -> None:
    """The stamp becomes so much older."""
    value = node.wire.call("GET", STAMP)
    node.wire.call("SET", STAMP, value[:2] + b"%013d" % (int(value[2:15]) - ms) + value[15:])
