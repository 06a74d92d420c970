"""The restart guard of a node: vote.lua and bless.lua, on a real server."""

from __future__ import annotations

from tests.scripts.nodes import (
    MAIN,
    STAMP,
    Node,
)
from tests.scripts.workbench import ALICE, BOB

RUN = b"a" * 40
OTHER_RUN = b"b" * 40


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
    """The node may have been flushed since the operator sent it."""
    assert node.bless(RUN, not_after=node.now() - 1)[0] == -1
    assert node.vote(ALICE, run=RUN)[0] == -4


def test_without_a_run_there_is_no_guard(node: Node) -> None:
    assert node.vote(ALICE)[0] == 1
    assert node.wire.call("EXISTS", STAMP) == 0


def _age(node: Node, ms: int) -> None:
    """Makes the stamp that much older."""
    value = node.wire.call("GET", STAMP)
    node.wire.call("SET", STAMP, value[:2] + b"%013d" % (int(value[2:15]) - ms) + value[15:])
