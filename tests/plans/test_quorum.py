"""An acquisition by a quorum: votes, fences, time, and what comes in between."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight import ClockDrift, LockTimeout, NotPermitted, QuorumNotReached
from holdtight.base.plan import Bell, ServerSaid
from holdtight.base.values import Late
from holdtight.core.quorum import deadline_of
from tests.plans.election import GUARDED, NAMES, NO, Election, granted, yes
from tests.plans.scripted import OWNER, SENT, UNSENT, Clock, Named

# Votes


def test_a_majority_is_enough_and_the_others_are_not_waited_for() -> None:
    run = Election()
    assert not run.fans().certain([yes(), yes(), None, None, None])
    run.nodes(yes(), yes(), yes())
    assert granted(run).grant.fence == 7
    assert run.poll.round is not None
    assert set(run.poll.round.unanswered()) == {3, 4}


@pytest.mark.parametrize("gone", [UNSENT, SENT, GUARDED, ServerSaid("LOADING the dataset")], ids=str)
def test_a_node_that_cannot_vote_is_a_no_and_does_not_make_the_majority_smaller(gone: Any) -> None:
    run = Election(wait=0)
    run.nodes(yes(), yes(), gone, gone, gone)
    assert run.verbs()[:2] == ["withdraw", "withdraw"]
    run.nodes(1, 1)
    assert isinstance(run.error, QuorumNotReached)
    assert list(run.error.nodes) == list(NAMES)


def test_four_nodes_need_three_votes_so_that_two_and_two_decide_nothing() -> None:
    run = Election(wait=0, count=4)
    assert not run.fans().certain([yes(), yes(), None, NO])
    run.nodes(yes(), yes(), NO, NO)
    run.nodes(1, 1)
    assert isinstance(run.error, LockTimeout)


def test_it_is_certain_as_soon_as_too_many_nodes_are_held_by_others() -> None:
    run = Election()
    assert not run.fans().certain([NO, NO, None, None, None])
    assert run.fans().certain([NO, NO, NO, None, None])


def test_too_few_nodes_are_no_reason_not_to_hear_the_others() -> None:
    run = Election()
    assert not run.fans().certain([UNSENT, UNSENT, GUARDED, None, None])
    assert run.fans().certain([UNSENT, UNSENT, GUARDED, NO, yes()])


def test_a_lost_round_is_withdrawn_wherever_a_vote_may_be_and_the_next_has_another_owner() -> None:
    """Otherwise a withdrawal that comes late takes back a vote of the next round."""
    run = Election()
    run.nodes(yes(), NO, NO, SENT, UNSENT)
    assert run.owner() == OWNER
    assert run.verbs() == ["withdraw", None, None, "withdraw", None]
    assert run.fans().undo
    late = run.fans().steps[3]
    assert isinstance(late, Named)
    assert isinstance(late.otherwise, Named)
    assert late.otherwise.details["marker"] > 0  # by another connection, a marker refuses the vote itself
    run.nodes(1)
    run.until_due()
    assert run.verbs() == ["vote"] * 5
    assert run.owner() != OWNER


def test_the_undo_waits_only_for_nodes_that_are_known_to_have_voted() -> None:
    run = Election()
    run.nodes(yes(), NO, NO, SENT, NO)
    assert run.fans().certain([1, None, None, None, None])
    assert not run.fans().certain([None, None, None, 1, None])


def test_a_denied_waiter_asks_again_soon_or_when_any_node_rings() -> None:
    run = Election()
    run.nodes(NO, NO, NO, NO, NO)
    park = run.sleeps()
    assert park.owner == OWNER
    assert 0 < park.until - run.clock() <= 0.02
    run.answer(Bell())
    assert run.verbs() == ["vote"] * 5
    run.nodes(NO, NO, NO, NO, NO)
    assert run.sleeps().owner == OWNER, "it is rung under the same name in every round"


def test_held_by_others_on_a_majority_is_a_timeout_and_not_an_outage() -> None:
    run = Election(wait=0)
    run.nodes(NO, NO, NO, NO, NO)
    assert isinstance(run.error, LockTimeout)
    assert run.error.holder is not None


def test_try_acquire_of_what_others_hold_is_none() -> None:
    run = Election(wait=0, or_none=True)
    run.nodes(NO, yes(), NO, NO, yes())
    run.nodes(1, 1, 1, 1, 1)
    assert run.done
    assert run.error is None
    assert run.result is None


def test_the_error_names_the_answer_of_every_node() -> None:
    run = Election(wait=0)
    run.nodes(yes(), NO, GUARDED, UNSENT, SENT)
    run.nodes(1)
    assert isinstance(run.error, QuorumNotReached)
    assert "restart guard" in run.error.nodes["node-2"]
    assert run.error.nodes["node-3"] == "connection refused"
    assert "bless" in str(run.error)


def test_no_majority_is_asked_for_again_until_the_wait_ends() -> None:
    run = Election(wait=1.0)
    for _ in range(100):
        run.nodes(*[UNSENT] * 5)
        if run.done:
            break
        run.until_due()
    assert isinstance(run.error, QuorumNotReached)
    assert run.error.waited is not None
    assert run.error.waited >= 1.0


def test_guarded_nodes_are_waited_for_longer_than_nodes_that_never_answered() -> None:
    run = Election(wait=30)
    run.nodes(*[GUARDED] * 5)
    run.clock.now += 10  # beyond connect_timeout
    run.until_due()
    run.nodes(yes(sent=run.clock()), yes(sent=run.clock()), yes(sent=run.clock()))
    assert granted(run)


def test_what_all_nodes_refuse_alike_is_said_as_one_server_would() -> None:
    denied = ServerSaid("NOPERM this user has no permissions")
    run = Election()
    run.nodes(*[denied] * 5)
    assert isinstance(run.error, NotPermitted)


def test_late_requests_are_sent_again_at_once() -> None:
    run = Election()
    run.nodes(*[Late()] * 5)
    assert run.verbs() == ["vote"] * 5


def test_a_node_that_is_always_late_and_needed_is_named_when_the_wait_ends() -> None:
    """Its clock is ahead of the others, two of which are down: it counts as down too, and is not asked for ever."""
    run = Election(wait=1.0)
    for rounds in range(100):
        run.nodes(yes(sent=run.clock()), yes(sent=run.clock()), Late(), UNSENT, UNSENT)
        run.nodes(1, 1)  # withdrawn
        if run.done:
            break
        if rounds >= 3:
            run.until_due()
    assert isinstance(run.error, QuorumNotReached)
    assert "ahead of the others" in run.error.nodes["node-2"]
    assert run.error.nodes["node-3"] == "connection refused"


# Fences


def test_one_fence_of_a_majority_is_the_fence() -> None:
    run = Election()
    run.nodes(yes(7), yes(9), yes(7), yes(7))
    assert granted(run).grant.fence == 7


def test_otherwise_the_largest_is_written_back_to_a_majority_before_the_lease_is_handed_out() -> None:
    run = Election()
    run.nodes(yes(7), yes(9), yes(8))
    assert [step.details["fence"] if isinstance(step, Named) else 0 for step in run.fans().steps] == [9, 0, 9, 0, 0]
    assert not run.fans().certain([True, None, None, None, None])
    run.nodes(True, None, True)
    assert granted(run).grant.fence == 9


def test_a_fence_that_cannot_be_written_to_a_majority_is_no_grant() -> None:
    """The vote was not ours any more when the fence came: the round is given back."""
    run = Election()
    run.nodes(yes(7), yes(9), yes(8))
    run.nodes(False, None, True)
    assert run.verbs()[:3] == ["withdraw", "withdraw", "withdraw"]


def test_the_fence_that_is_proposed_comes_from_the_clocks_of_the_nodes() -> None:
    run = Election(clock=Clock(5.0))
    step = run.fans().steps[0]
    assert isinstance(step, Named)
    assert step.details["proposal"] == 5_000_000


# Time


def test_validity_counts_from_before_the_majority_was_asked() -> None:
    run = Election()
    run.nodes(yes(sent=1000.3), yes(sent=1000.0), yes(sent=1000.1))
    assert granted(run).grant.sent == 1000.0


def test_a_grant_that_took_its_ttl_is_given_back_as_clock_drift() -> None:
    run = Election(wait=0)
    run.nodes(yes(), yes(), yes(), after=9.99)
    assert run.verbs()[:3] == ["withdraw"] * 3
    run.nodes(1, 1, 1)
    assert isinstance(run.error, ClockDrift)


@pytest.mark.parametrize(
    ("good_until", "deadline"),
    [([9, 9, 9, 9, 9], 9), ([9, 9, 5, 0, 0], 5), ([9, 9, 0, 0, 0], 0), ([1, 2, 3, 4, 5], 3)],
)
def test_a_lease_lasts_as_long_as_a_majority_keeps_it(good_until: list[float], deadline: float) -> None:
    assert deadline_of(good_until, 3) == deadline


# What comes in between


def test_a_cancelled_vote_is_withdrawn_from_every_node_and_the_cancellation_goes_on() -> None:
    run = Election()
    run.answer(KeyboardInterrupt())
    assert run.verbs() == ["withdraw"] * 5
    run.nodes()
    assert isinstance(run.error, KeyboardInterrupt)


def test_a_cancelled_agreement_is_withdrawn_too() -> None:
    run = Election()
    run.nodes(yes(7), yes(9), yes(8))
    run.answer(KeyboardInterrupt())
    assert run.verbs() == ["withdraw"] * 5
