"""Every way of giving up withdraws, once, with the right marker; and only if there is something to undo."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtight.base.plan import Bell, LinkDown, Park
from holdtight.base.values import Denied, Grant, Late, Queued
from holdtight.core.contend import Granted
from holdtight.errors import ClockDrift, LockTimeout, Unavailable
from tests.plans.scripted import HOLDER, LOADING, OWNER, SENT, STALE, UNSENT, Lock, Named, Run, ask

QUEUED = Queued(HOLDER, left=3.0, position=1, look=3.0)

GIVING_UP = [KeyboardInterrupt(), asyncio.CancelledError(), SystemExit(1), MemoryError()]


@pytest.mark.parametrize("error", GIVING_UP, ids=repr)
def test_given_up_while_an_attempt_is_under_way(error: BaseException) -> None:
    run = ask(None)
    limit = run.asks("attempt").details["limit"]
    run.answer(error)
    withdrawal = run.asks("withdraw")
    assert withdrawal.undo
    assert withdrawal.owner == OWNER
    assert withdrawal.details["marker"] == 0, "on the connection of the deed the order suffices"
    assert marker_elsewhere(withdrawal) == limit
    run.answer(1)
    assert run.error is error
    assert len(run.all("withdraw")) == 1


@pytest.mark.parametrize("error", GIVING_UP, ids=repr)
def test_given_up_in_line(error: BaseException) -> None:
    run = ask(QUEUED)
    run.sleeps()
    run.answer(error)
    withdrawal = run.asks("withdraw")
    assert withdrawal.details["marker"] == 0
    assert marker_elsewhere(withdrawal) == 0
    run.answer(1)
    assert run.error is error


def test_given_up_while_pausing_before_anything_was_sent_there_is_nothing_to_undo() -> None:
    run = ask(UNSENT)
    run.sleeps()
    run.answer(KeyboardInterrupt())
    assert isinstance(run.error, KeyboardInterrupt)
    assert run.all("withdraw") == []


def test_given_up_while_pausing_after_a_lost_reply_a_marker_goes_along() -> None:
    run = ask(SENT, limit=4242)
    run.sleeps()
    run.answer(KeyboardInterrupt())
    assert run.asks("withdraw").details["marker"] == 4242
    assert marker_elsewhere(run.asks("withdraw")) == 4242


def test_the_marker_is_the_latest_limit_of_all_lost_attempts() -> None:
    run = ask(SENT, limit=1)
    limits = []
    for _ in range(3):
        run.until_due()
        limits.append(run.asks("attempt").details["limit"])
        run.answer(SENT, after=0.1)
    run.answer(KeyboardInterrupt())
    assert run.asks("withdraw").details["marker"] == max(limits)


def test_an_earlier_limit_of_a_later_attempt_does_not_shorten_the_marker() -> None:
    run = ask(SENT, limit=9_999_999).until_due()
    assert run.asks("attempt").details["limit"] < 9_999_999
    run.answer(SENT).answer(KeyboardInterrupt())
    assert run.asks("withdraw").details["marker"] == 9_999_999


def test_the_grant_after_a_lost_reply_carries_the_marker_to_its_release() -> None:
    run = ask(SENT, limit=1_002_001).until_due()
    run.answer(Grant(7, run.clock()))
    assert run.result is not None
    assert run.result.marker == 1_002_001


@pytest.mark.parametrize("failure", [SENT, UNSENT, LOADING], ids=repr)
def test_a_withdrawal_that_fails_does_not_hide_why_we_gave_up(failure: Exception) -> None:
    run = ask(QUEUED).answer(KeyboardInterrupt("first"))
    run.answer(failure)
    assert isinstance(run.error, KeyboardInterrupt)
    assert len(run.all("withdraw")) == 1


def test_a_second_interrupt_during_the_withdrawal_goes_through_and_nothing_is_withdrawn_twice() -> None:
    run = ask(QUEUED).answer(KeyboardInterrupt("first"))
    run.asks("withdraw")
    run.answer(KeyboardInterrupt("second"))
    assert isinstance(run.error, KeyboardInterrupt)
    assert str(run.error) == "second"
    assert len(run.all("withdraw")) == 1


def test_an_interrupt_during_the_withdrawal_of_a_timeout_is_not_undone_again() -> None:
    run = ask(QUEUED, wait=1.0).until_due()
    run.asks("withdraw")
    run.answer(KeyboardInterrupt())
    assert isinstance(run.error, KeyboardInterrupt)
    assert len(run.all("withdraw")) == 1


def test_an_interrupt_while_the_holder_is_looked_up_is_not_undone_again() -> None:
    run = ask(QUEUED, wait=1.0).until_due().answer(1)
    run.asks("holder")
    run.answer(KeyboardInterrupt())
    assert isinstance(run.error, KeyboardInterrupt)
    assert len(run.all("withdraw")) == 1


def test_a_reply_that_cannot_be_read_is_undone_like_any_other_mishap() -> None:
    run = ask(None).answer(ValueError("not a reply of ours"))
    run.asks("withdraw")
    run.answer(1)
    assert isinstance(run.error, ValueError)


def test_try_acquire_withdraws_a_lost_attempt_before_it_says_none() -> None:
    run = ask(STALE, wait=0, or_none=True, limit=4242).answer(Denied(HOLDER, 3.0))
    assert run.asks("withdraw").details["marker"] == 4242
    run.answer(1)
    assert run.done
    assert run.result is None
    assert run.error is None


def test_a_grant_that_came_too_late_is_given_back_when_we_give_up() -> None:
    run = ask(None, lock=Lock(ttl=1.0)).answer(Grant(7, 1000.0), after=1.5)
    run.answer(LinkDown("refused", sent=False))
    run.sleeps()
    run.answer(KeyboardInterrupt())
    run.asks("withdraw")


# Any order of things.

_ATTEMPT_ANSWERS = st.sampled_from(
    [QUEUED, Late(), SENT, UNSENT, STALE, LOADING, "slow grant", Queued(None, 0.0, 3, 0.0)]
)
_PARK_ANSWERS = st.sampled_from(["due", "due", Bell(), Bell(0.05), UNSENT])


class Model:
    """Whether the server may know of us, and until when a lost attempt may arrive."""

    def __init__(self) -> None:
        self.in_line = False
        self.lost = 0
        self.pending = 0

    def attempt_answered(self, attempt: Named, answer: Any) -> None:
        self.pending = 0
        if isinstance(answer, LinkDown) and answer.sent:
            self.lost = max(self.lost, attempt.details["limit"])
        if isinstance(answer, (Queued, Grant)):
            self.in_line = True

    @property
    def something_to_undo(self) -> bool:
        return bool(self.in_line or self.lost or self.pending)


@given(
    wait=st.sampled_from([None, 0, 0.2, 5.0]),
    attempts=st.lists(_ATTEMPT_ANSWERS, max_size=12),
    parks=st.lists(_PARK_ANSWERS, max_size=12),
    give_up_at=st.integers(0, 20),
    error=st.sampled_from(GIVING_UP),
)
def test_whatever_happened_it_is_withdrawn_exactly_if_the_server_may_know_of_us(
    wait: float | None, attempts: list[Any], parks: list[Any], give_up_at: int, error: BaseException
) -> None:
    run = ask(None, wait=wait, lock=Lock(ttl=1.0))
    model = Model()
    for turn in range(30):
        if run.done or run.all("withdraw"):
            break
        wish = run.wish
        if isinstance(wish, Named) and wish.verb == "attempt":
            model.pending = wish.details["limit"]
        nothing_more = not (parks if isinstance(wish, Park) else attempts)
        if turn == give_up_at or nothing_more:
            expected = model.something_to_undo
            run.answer(error)
            assert bool(run.all("withdraw")) is expected
            assert run.done is not expected
            break
        if isinstance(wish, Park):
            answer = parks.pop()
            run.until_due() if answer == "due" else run.answer(answer, after=0.02)
        elif isinstance(wish, Named) and wish.verb == "attempt":
            answer = attempts.pop()
            if answer == "slow grant":
                answer = Grant(7, run.clock())
                run.clock.now += 1.5
            model.attempt_answered(wish, answer)
            run.answer(answer, after=0.01)
        else:
            run.answer(None)
    finish(run, model)


def finish(run: Run[Granted | None], model: Model) -> None:
    withdrawals = run.all("withdraw")
    assert len(withdrawals) <= 1
    if withdrawals:
        assert model.something_to_undo
        assert withdrawals[0].owner == OWNER
        assert withdrawals[0].details["marker"] == model.lost
        assert marker_elsewhere(withdrawals[0]) == max(model.lost, model.pending)
        while not run.done:
            run.answer(1 if run.wish is withdrawals[0] else None)
        assert run.error is not None, "a withdrawal is followed by the error that caused it"
        assert len(run.all("withdraw")) == 1
    elif run.error is not None:
        assert not model.something_to_undo
    if run.error is not None and not isinstance(run.error, tuple(type(each) for each in GIVING_UP)):
        assert isinstance(run.error, (LockTimeout, Unavailable, ClockDrift))


def marker_elsewhere(withdrawal: Named) -> int:
    """The marker of the request that is sent when the connection of the attempt is gone."""
    assert isinstance(withdrawal.otherwise, Named)
    assert withdrawal.otherwise.verb == "withdraw"
    marker = withdrawal.otherwise.details["marker"]
    assert isinstance(marker, int)
    return marker
