"""The wait loop on a store without a line: it polls until the wait has ended."""

from __future__ import annotations

import asyncio

import pytest

from holdtight.base.plan import Bell
from holdtight.base.values import Denied, Grant
from holdtight.errors import LockTimeout, Unavailable
from tests.plans.scripted import LOADING, SENT, UNSENT, Clock, ask, named_holder

HELD = Denied(b"", 0.0, look=0.5)


def test_it_looks_again_after_the_pause_and_is_in_no_line() -> None:
    run = ask(HELD, or_none=True)
    park = run.sleeps()
    assert park.until == run.clock() + 0.5
    assert park.touch is None
    run.until_due()
    run.asks("attempt")
    run.answer(HELD).until_due()
    run.asks("attempt")
    run.answer(Grant(0, run.clock()))
    assert run.result is not None
    assert run.all("withdraw") == []


def test_a_bell_is_a_reason_to_look_at_once() -> None:
    run = ask(HELD, or_none=True)
    run.answer(Bell(), after=0.1)
    run.asks("attempt")


def test_the_last_look_is_when_the_wait_ends() -> None:
    run = ask(HELD, wait=0.7, or_none=True)
    run.until_due()
    run.answer(HELD)
    assert run.sleeps().until == pytest.approx(1000.7)
    run.until_due()
    run.asks("attempt")
    run.answer(HELD)
    assert run.done
    assert run.result is None
    assert run.all("withdraw") == [], "nothing of ours is there"


def test_a_wait_that_ends_between_two_looks_at_the_clock_still_has_its_last_look() -> None:
    class Passing(Clock):
        """Time passes with every attempt from now on."""

        step = 0.0

        def __call__(self) -> float:
            self.now += self.step
            return self.now

    clock = Passing()
    run = ask(HELD, wait=1.0, or_none=True, clock=clock)
    run.until_due()
    run.asks("attempt")
    clock.now, clock.step = 1000.95, 0.03
    run.answer(HELD)
    run.until_due()
    run.asks("attempt")
    run.answer(HELD)
    assert run.done
    assert run.result is None


def test_a_caller_that_wants_an_error_gets_one_when_the_wait_ends() -> None:
    run = ask(HELD, wait=0.2)
    run.until_due()
    run.answer(HELD)
    run.asks("holder")
    run.answer(named_holder())
    assert isinstance(run.error, LockTimeout)


def test_a_caller_that_does_not_wait_has_the_answer() -> None:
    run = ask(Denied(b"", 0.0), wait=0, or_none=True)
    assert run.done
    assert run.result is None


def test_an_attempt_that_went_unanswered_is_withdrawn_at_the_end() -> None:
    run = ask(SENT, wait=0.3, limit=77, or_none=True)
    run.until_due().asks("attempt")
    run.answer(HELD).until_due().asks("attempt")
    run.answer(HELD)
    assert run.asks("withdraw").details["marker"] >= 77
    run.answer(1)
    assert run.done
    assert run.result is None


def test_a_server_that_goes_silent_between_looks_is_waited_for_and_then_told_of() -> None:
    clock = Clock()
    run = ask(HELD, wait=60.0, or_none=True, clock=clock)
    run.until_due()
    for _ in range(20):
        run.answer(UNSENT).until_due()
        run.asks("attempt")
    assert clock() < 1060
    clock.now = 1060
    run.answer(UNSENT)
    assert isinstance(run.error, Unavailable)


def test_an_answer_between_failures_begins_their_count_anew() -> None:
    run = ask(HELD, or_none=True)
    run.until_due().answer(LOADING).until_due().answer(HELD).until_due().answer(LOADING)
    assert run.sleeps().until - run.clock() <= 0.011, "the first and shortest pause"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
def test_given_up_between_two_looks_there_is_nothing_to_undo(error: BaseException) -> None:
    run = ask(HELD, or_none=True)
    run.sleeps()
    run.answer(error)
    assert run.error is error
    assert run.all("withdraw") == []
