"""Release and adoption, branch by branch."""

from __future__ import annotations

import pytest

from holdtight.base.plan import LinkDown, ServerSaid
from holdtight.base.values import Denied, Grant, Late, LossReason
from holdtight.core.ending import MOST_SWEEPS, adopt, downgrade, release
from holdtight.errors import LeaseLost
from tests.plans.scripted import HOLDER, LOADING, OWNER, SENT, UNSENT, Clock, Lock, Run

OLD = b"d" * 24
GONE = Denied(None, 0.0)
TAKEN = Denied(HOLDER, 0.0)


def releasing(first: object = None, *, marker: int = 0) -> Run[LossReason | None]:
    return Run(release(Lock(), OWNER, marker=marker, first=first), Clock())


def adopting() -> Run[Grant]:
    clock = Clock()
    return Run(adopt(Lock(), OLD, OWNER, clock=clock), clock)


# Release.


def test_a_release_is_one_step() -> None:
    run = releasing()
    assert run.asks("release").owner == OWNER
    run.answer(1)
    assert run.done
    assert run.result is None


@pytest.mark.parametrize(("answer", "reason"), [(1, None), (TAKEN, LossReason.TAKEN)])
def test_after_an_unanswered_attempt_a_marker_follows_the_release(answer: object, reason: LossReason | None) -> None:
    run = releasing(marker=5)
    run.asks("release")
    run.answer(answer)
    step = run.asks("mark")
    assert (step.owner, step.details["marker"]) == (OWNER, 5)
    run.answer(1)
    assert run.done
    assert run.result is reason


@pytest.mark.parametrize(("answer", "reason"), [(GONE, LossReason.EXPIRED), (TAKEN, LossReason.TAKEN)])
def test_what_was_not_ours_any_more_has_a_reason(answer: Denied, reason: LossReason) -> None:
    assert releasing().answer(answer).result is reason


@pytest.mark.parametrize("answer", [GONE, TAKEN])
def test_not_ours_on_the_retry_after_a_lost_reply_means_released(answer: Denied) -> None:
    run = releasing().answer(SENT)
    run.asks("release")
    run.answer(answer)
    assert run.done
    assert run.error is None
    assert run.result is None


@pytest.mark.parametrize(("answer", "reason"), [(GONE, LossReason.EXPIRED), (TAKEN, LossReason.TAKEN)])
def test_not_ours_after_a_request_that_never_left_is_a_loss(answer: Denied, reason: LossReason) -> None:
    run = releasing().answer(UNSENT)
    run.asks("release")
    run.answer(answer)
    assert run.result is reason


def test_a_release_is_retried_once_and_no_more() -> None:
    run = releasing().answer(SENT)
    run.asks("release")
    again = LinkDown("still down", sent=True)
    run.answer(again)
    assert run.error is again


def test_an_error_reply_is_not_retried() -> None:
    run = releasing().answer(LOADING)
    assert isinstance(run.error, ServerSaid)


def test_an_interrupt_goes_through() -> None:
    assert isinstance(releasing().answer(KeyboardInterrupt()).error, KeyboardInterrupt)


@pytest.mark.parametrize(("reply", "reason"), [(GONE, LossReason.EXPIRED), (TAKEN, LossReason.TAKEN)])
def test_a_first_reply_that_says_not_ours_is_believed_at_once(reply: Denied, reason: LossReason) -> None:
    run = releasing(reply)
    assert run.seen == []
    assert run.result is reason


@pytest.mark.parametrize("answer", [GONE, TAKEN])
def test_after_a_first_request_that_was_lost_not_ours_means_released(answer: Denied) -> None:
    run = releasing(SENT)
    run.asks("release")
    run.answer(answer)
    assert run.result is None
    assert run.error is None


def test_after_a_first_request_that_was_lost_a_second_loss_is_the_end() -> None:
    assert isinstance(releasing(SENT).answer(SENT).error, LinkDown)


def test_a_first_reply_that_was_an_error_tells_nothing_and_it_is_asked_again() -> None:
    run = releasing(ServerSaid("NOSCRIPT No matching script"))
    run.asks("release")
    assert run.answer(GONE).result is LossReason.EXPIRED


@pytest.mark.parametrize("first", [None, 2])
def test_dead_waiters_are_swept_until_none_are_left(first: object) -> None:
    run = releasing(first)
    if first is None:
        run.answer(2)
    for _ in range(3):
        assert run.asks("sweep").owner == OWNER
        run.answer(2)
    run.asks("sweep")
    run.answer(1)
    assert run.done
    assert run.result is None


def test_the_sweeping_ends_though_the_server_says_there_is_more() -> None:
    run = releasing()
    while not run.done:
        run.answer(2)
    assert len(run.all("sweep")) == MOST_SWEEPS
    assert run.result is None


@pytest.mark.parametrize("failure", [SENT, UNSENT, LOADING], ids=repr)
def test_a_sweep_that_fails_changes_nothing_about_the_release(failure: Exception) -> None:
    run = releasing(2).answer(failure)
    assert run.done
    assert run.error is None
    assert run.result is None


# Adoption.


def test_adoption_is_one_step_under_the_new_owner() -> None:
    run = adopting()
    step = run.asks("adopt")
    assert step.owner == OWNER
    assert step.details["old"] == OLD
    grant = Grant(9, 1000.0)
    assert run.answer(grant).result is grant


@pytest.mark.parametrize(("answer", "reason"), [(GONE, LossReason.EXPIRED), (TAKEN, LossReason.TAKEN)])
def test_what_is_not_there_to_be_adopted_is_lost(answer: Denied, reason: LossReason) -> None:
    error = adopting().answer(answer).error
    assert isinstance(error, LeaseLost)
    assert error.reason is reason
    assert error.name == "orders"


def test_a_lost_reply_is_asked_again_with_the_same_owner_and_a_new_time() -> None:
    run = adopting().answer(SENT, after=0.5)
    step = run.asks("adopt")
    assert step.owner == OWNER
    assert step.details["now"] == 1000.5
    assert run.answer(Grant(9, 1000.5)).result == Grant(9, 1000.5)


def test_after_three_lost_replies_adoption_is_given_up_and_undone() -> None:
    run = adopting().answer(SENT).answer(SENT).answer(SENT, after=0.5)
    step = run.asks("withdraw")
    assert step.owner == OWNER
    assert step.details["marker"] == Lock().arrival_limit(1000.0, 2.0), "one may still be on its way: it is refused"
    run.answer(1)
    assert isinstance(run.error, LinkDown)
    assert len(run.all("adopt")) == 3


@pytest.mark.parametrize("answer", [1, SENT, LOADING])
def test_an_adoption_that_is_interrupted_is_undone(answer: object) -> None:
    run = adopting().answer(KeyboardInterrupt())
    assert run.asks("withdraw").owner == OWNER
    run.answer(answer)
    assert isinstance(run.error, KeyboardInterrupt)


def test_an_error_reply_after_a_lost_one_leaves_a_marker_for_the_lost_one() -> None:
    run = adopting().answer(SENT).answer(LOADING)
    assert run.asks("withdraw").details["marker"] > 0
    run.answer(1)
    assert isinstance(run.error, ServerSaid)


@pytest.mark.parametrize("before", [(), (UNSENT,)])
def test_an_error_reply_undoes_nothing_if_nothing_is_on_its_way(before: tuple[LinkDown, ...]) -> None:
    run = adopting()
    for each in before:
        run.answer(each)
    assert isinstance(run.answer(LOADING).error, ServerSaid)
    assert not run.all("withdraw")


def test_a_late_adoption_is_asked_again() -> None:
    run = adopting().answer(Late())
    run.asks("adopt")
    assert run.answer(Grant(9, 1000.0)).result is not None


def test_an_adoption_that_is_always_late_ends() -> None:
    run = adopting()
    for _ in range(20):
        if run.done:
            break
        run.answer(Late())
    assert run.done
    assert run.error is not None


# Downgrade.


def downgrading() -> Run[Grant]:
    clock = Clock()
    return Run(downgrade(Lock(), OWNER, clock=clock, marker=b"marker"), clock)


def test_a_downgrade_brings_its_marker_each_time() -> None:
    run = downgrading().answer(SENT)
    assert [step.details["marker"] for step in run.all("downgrade")] == [b"marker"] * 2
    grant = Grant(9, 1000.0)
    assert run.answer(grant).result is grant


@pytest.mark.parametrize("before", [(), (UNSENT,)])
def test_a_refused_downgrade_lets_the_writer_go_on(before: tuple[LinkDown, ...]) -> None:
    run = downgrading()
    for each in before:
        run.answer(each)
    assert isinstance(run.answer(LOADING).error, ServerSaid)


def test_a_refusal_is_none_if_an_earlier_request_may_still_arrive() -> None:
    """Otherwise the writer would continue, and the late request would turn it into a reader."""
    error = downgrading().answer(SENT).answer(LOADING).error
    assert isinstance(error, LinkDown)
    assert error.sent
    assert "LOADING" in error.cause
