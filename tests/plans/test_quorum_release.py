"""A quorum's release, with the scripted answers of five nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdtight.base.plan import LinkDown, NoQuorum
from holdtight.base.values import Denied, LossReason
from holdtight.core.quorum_ending import release
from tests.plans.election import NAMES, NO, ScriptedClaim
from tests.plans.scripted import OWNER, SENT, Clock, Named, Run


def giving_back(
    holding: Sequence[int] = range(5), markers: dict[int, int] | None = None, connections: Sequence[Any] = (None,) * 5
) -> Run[LossReason | None]:
    plan = release(ScriptedClaim(), NAMES, OWNER, holding=set(holding), markers=markers or {}, connections=connections)
    return Run(plan, Clock())


def test_a_release_is_done_when_a_majority_has_given_back() -> None:
    run = giving_back()
    assert run.fans().certain([1, 1, None, None, 1])
    assert run.answer([1, 1, None, None, 1]).result is None
    assert run.error is None


def test_a_request_on_its_way_is_refused_by_a_marker_or_by_the_order_of_its_own_connection() -> None:
    connection = object()
    run = giving_back(markers={3: 300, 4: 400}, connections=[None, None, None, None, connection])
    steps = [step for step in run.fans().steps if isinstance(step, Named)]
    assert [step.verb for step in steps] == ["resign"] * 3 + ["withdraw", "resign"]
    assert isinstance(steps[4].otherwise, Named)
    assert steps[4].otherwise.details["marker"] == 400


def test_a_release_that_most_nodes_know_nothing_of_says_so() -> None:
    run = giving_back()
    assert run.answer([1, 1, NO, NO, NO]).result is LossReason.TAKEN
    gone = Denied(None, 0.0)
    assert giving_back().answer([gone, gone, gone, gone, gone]).result is LossReason.EXPIRED


def test_a_node_that_lost_it_does_not_make_the_release_of_the_others_a_loss() -> None:
    assert giving_back().answer([1, 1, NO, 1, None]).result is None
    assert giving_back().answer([1, 1, NO, 1, SENT]).error is None


def test_a_release_on_fewer_than_a_majority_was_of_a_lock_that_was_not_held() -> None:
    assert giving_back(holding=[0, 1, 2]).answer([1, 1, NO, None, None]).result is LossReason.TAKEN


def test_a_release_that_too_few_nodes_heard_of_is_told() -> None:
    refused = LinkDown("refused", sent=False)
    run = giving_back().answer([1, 1, refused, refused, refused])
    assert isinstance(run.error, NoQuorum)
    assert run.error.nodes["node-0"] == "released"


def test_nodes_whose_connections_broke_are_asked_once_more() -> None:
    run = giving_back().answer([1, 1, SENT, SENT, LinkDown("refused", sent=False)])
    again = run.fans()
    assert [step is not None for step in again.steps] == [False, False, True, True, False]
    assert again.certain([None, None, 1, None, None]), "two had released it before"
    assert run.answer([None, None, 1, None, None]).result is None
    assert run.error is None


def test_not_ours_after_a_broken_connection_means_that_the_first_request_went_through() -> None:
    assert giving_back().answer([SENT] * 5).answer([NO, NO, NO, None, None]).result is None
    forced = Denied(None, 0.0, forced=True)
    assert giving_back().answer([SENT] * 5).answer([forced] * 5).result is LossReason.FORCED


def test_nodes_are_asked_twice_at_most_and_silent_ones_once() -> None:
    run = giving_back().answer([SENT] * 5).answer([SENT] * 5)
    assert isinstance(run.error, NoQuorum)
    silent = LinkDown("it did not answer in time", sent=True, silent=True)
    run = giving_back().answer([1, 1, silent, silent, silent])
    assert isinstance(run.error, NoQuorum)
