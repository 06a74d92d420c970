"""The wait loop, branch by branch."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight.base.clock import Backoff
from holdtight.base.plan import Bell, Park, ServerSaid
from holdtight.base.values import Denied, Grant, Late, Queued, QueueIsFull, Withdrawn
from holdtight.core.contend import Granted, abandon
from holdtight.errors import (
    ClockDrift,
    LockTimeout,
    NotPermitted,
    OutOfMemory,
    QueueFull,
    ScriptError,
    Unavailable,
)
from tests.plans.scripted import (
    HOLDER,
    LOADING,
    OWNER,
    SENT,
    STALE,
    UNSENT,
    Clock,
    Lock,
    Run,
    ask,
    asking_at,
    named_holder,
)

PASSING = ["LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY", "MISCONF"]
QUEUED = Queued(HOLDER, left=3.0, position=2, look=3.25)


def granted(run: Run[Any], fence: int = 7) -> Grant:
    return Grant(fence, run.clock())


# Queue, bell, note.


def test_without_a_first_answer_the_plan_makes_the_first_attempt() -> None:
    run = ask(None)
    assert run.asks("attempt").details["queue"] is True
    run.answer(granted(run))
    assert run.result is not None
    assert run.result.grant.fence == 7
    assert run.result.marker == 0


def test_a_grant_that_came_first_is_returned_with_nothing_asked() -> None:
    run = ask(Grant(7, 1000.0))
    assert run.done
    assert run.seen == []
    assert run.result is not None
    assert run.result.grant.fence == 7


def test_in_line_it_sleeps_until_the_moment_the_server_named() -> None:
    run = ask(QUEUED)
    assert run.sleeps().until == 1003.25
    run.until_due()
    run.asks("attempt")


def test_a_bell_is_confirmed_by_the_same_attempt_before_it_is_believed() -> None:
    run = ask(QUEUED).answer(Bell(), after=0.5)
    confirmation = run.asks("attempt")
    assert confirmation.owner == OWNER
    assert confirmation.details["now"] == 1000.5
    run.answer(granted(run, 9), after=0.001)
    assert run.result is not None
    assert run.result.grant.fence == 9
    assert run.all("withdraw") == []


def test_a_note_lowers_the_moment_to_look_and_never_raises_it() -> None:
    run = ask(QUEUED).answer(Bell(0.5), after=1.0)
    assert run.sleeps().until == 1001.5
    run.answer(Bell(60.0))
    assert run.sleeps().until == 1001.5


def test_the_heartbeat_that_goes_with_a_place_in_line_names_owner_and_inbox() -> None:
    touch = ask(QUEUED).sleeps().touch
    assert touch is not None
    assert touch(b"inbox") == b"touch " + OWNER + b" inbox"


def test_a_lost_inbox_makes_the_waiter_look_at_once() -> None:
    run = ask(QUEUED).answer(UNSENT, after=0.1)
    assert run.asks("attempt").details["now"] == 1000.1


def test_every_attempt_of_one_acquisition_has_the_same_owner() -> None:
    run = ask(None)
    for value in (Late(), UNSENT, None, QUEUED, Bell(), QUEUED, Bell(0.1), None, SENT, None, LOADING, None):
        run.answer(value, after=0.01)
    attempts = run.all("attempt")
    assert len(attempts) > 5
    assert {each.owner for each in attempts} == {OWNER}


# The wait ends.


def test_when_the_wait_ends_the_line_is_left_first_and_the_error_names_the_holder() -> None:
    run = ask(QUEUED, wait=2.0)
    assert run.sleeps().until == 1002.0
    run.until_due()
    assert run.asks("withdraw").details["marker"] == 0
    run.answer(1)
    assert run.asks("holder").owner == HOLDER
    run.answer(named_holder())
    assert isinstance(run.error, LockTimeout)
    assert "worker-7, pid 42" in str(run.error)
    assert "'orders'" in str(run.error)
    assert run.error.waited == pytest.approx(2.0)
    assert run.error.holder == named_holder()
    assert [each.verb for each in run.all("withdraw")] == ["withdraw"]


@pytest.mark.parametrize("failure", [SENT, LOADING])
def test_a_holder_that_cannot_be_named_does_not_hide_the_timeout(failure: Exception) -> None:
    run = ask(QUEUED, wait=1.0).until_due().answer(1).answer(failure)
    assert isinstance(run.error, LockTimeout)
    assert "another owner" in str(run.error)


def test_a_bell_at_the_very_end_of_the_wait_is_still_confirmed() -> None:
    run = ask(QUEUED, wait=1.0).until_due(Bell())
    run.asks("attempt")
    run.answer(granted(run))
    assert run.result is not None


def test_a_note_at_the_end_of_the_wait_does_not_prolong_it() -> None:
    run = ask(QUEUED, wait=1.0).until_due(Bell(0.5))
    run.asks("withdraw")


def test_without_waiting_a_denial_is_a_timeout_and_nothing_is_withdrawn() -> None:
    run = ask(Denied(HOLDER, 3.0), wait=0)
    run.asks("holder")
    run.answer(named_holder())
    assert isinstance(run.error, LockTimeout)
    assert run.all("withdraw") == []


def test_for_try_acquire_a_denial_is_none() -> None:
    run = ask(Denied(HOLDER, 3.0), wait=0, or_none=True)
    assert run.done
    assert run.result is None
    assert run.error is None


def test_try_acquire_after_a_stale_link_is_none_too_and_no_timeout() -> None:
    run = ask(STALE, wait=0, or_none=True, limit=5).answer(Denied(HOLDER, 3.0))
    while not run.done:  # the lost attempt is withdrawn
        run.answer(1)
    assert run.error is None
    assert run.result is None


def test_a_full_queue_is_an_error_with_both_numbers_and_nothing_to_undo() -> None:
    run = ask(QueueIsFull(100), lock=Lock(max_waiters=100))
    assert isinstance(run.error, QueueFull)
    assert "100 are waiting" in str(run.error)
    assert run.seen == []


# No answer.


def never_reached(run: Run[Granted | None]) -> None:
    while not run.done:
        run.until_due()
        if not run.done:
            run.answer(UNSENT)


def test_before_the_first_answer_it_retries_until_the_connect_timeout() -> None:
    run = ask(UNSENT, wait=60, connect_timeout=1.0, retry=Backoff(first=0.4, cap=0.4))
    never_reached(run)
    assert isinstance(run.error, Unavailable)
    assert not isinstance(run.error, LockTimeout)
    assert 1000.6 <= run.clock.now <= 1001.0
    assert len(run.all("attempt")) >= 2


def test_before_the_first_answer_a_shorter_wait_ends_the_retries() -> None:
    run = ask(UNSENT, wait=0.3, connect_timeout=60.0, retry=Backoff(first=0.1, cap=0.1))
    never_reached(run)
    assert isinstance(run.error, Unavailable)
    assert run.clock.now <= 1000.3


def test_once_in_line_it_retries_until_the_wait_ends_however_long_that_is() -> None:
    run = ask(QUEUED, wait=30.0, connect_timeout=0.5, retry=Backoff(first=1, cap=1))
    run.answer(UNSENT)
    failures = 0
    while run.clock.now < 1025:
        run.answer(UNSENT)
        failures += 1
        run.until_due()
    run.asks("attempt")
    assert failures > 20


def test_a_wait_that_ends_without_an_answer_is_unavailable_and_no_timeout() -> None:
    run = ask(QUEUED, wait=5.0, retry=Backoff(first=1, cap=1))
    run.answer(UNSENT)
    while run.clock.now < 1003.9:
        run.answer(UNSENT).until_due()
    while not run.all("withdraw"):
        run.answer(UNSENT)
        if isinstance(run.wish, Park):
            run.until_due()
    run.answer(1)
    assert isinstance(run.error, Unavailable)
    assert not isinstance(run.error, LockTimeout)
    assert len(run.all("withdraw")) == 1, "we may still stand in line there"


def test_without_waiting_no_connection_is_unavailable_at_once() -> None:
    run = ask(UNSENT, wait=0)
    assert isinstance(run.error, Unavailable)
    assert run.seen == []
    assert "connection refused" in str(run.error)


def test_a_stale_link_gets_one_more_try_at_once_even_without_waiting() -> None:
    run = ask(STALE, wait=0, limit=77)
    assert run.asks("attempt").details["queue"] is False
    run.answer(granted(run))
    assert run.result is not None
    assert run.result.marker == 77, "the lost attempt may still arrive"


def test_a_second_stale_link_in_a_row_is_not_excused_again() -> None:
    run = ask(STALE, wait=0).answer(STALE).answer(None)
    assert isinstance(run.error, Unavailable)


@pytest.mark.parametrize("word", PASSING)
def test_a_server_that_cannot_answer_now_is_asked_again_and_never_taken_for_free(word: str) -> None:
    run = ask(ServerSaid(f"{word} not now"), wait=None, connect_timeout=0.5)
    run.until_due()
    run.asks("attempt")
    while not run.done:
        run.answer(ServerSaid(f"{word} not now"))
        if not run.done:
            run.until_due()
    assert isinstance(run.error, Unavailable)
    assert word in str(run.error)
    assert run.all("withdraw") == []


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("NOPERM this user has no permissions to run the 'evalsha' command", NotPermitted),
        ("WRONGPASS invalid username-password pair or user is disabled.", NotPermitted),
        ("NOAUTH Authentication required.", NotPermitted),
        ("OOM command not allowed when used memory > 'maxmemory'.", OutOfMemory),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", ScriptError),
        ("HTFOREIGN the key holds a value that is not a lock of this format", ScriptError),
        ("ERR unknown command 'EVALSHA'", ScriptError),
    ],
)
def test_a_server_that_will_never_agree_raises_at_once(said: str, error: type[Exception]) -> None:
    run = ask(ServerSaid(said), wait=None)
    assert type(run.error) is error
    assert run.seen == []


# Late, and slow grants.


@pytest.mark.parametrize("answer", [Late(), Withdrawn()])
def test_a_late_attempt_is_made_again_at_once_with_the_same_owner(answer: object) -> None:
    run = ask(answer)  # type: ignore[arg-type]
    assert run.asks("attempt").owner == OWNER
    run.answer(granted(run))
    assert run.result is not None


def test_a_server_for_which_every_attempt_is_late_is_given_up() -> None:
    run = ask(Late(), connect_timeout=0.5)
    for _ in range(200):
        if run.done:
            break
        run.answer(Late(), after=0.01)
    assert isinstance(run.error, Unavailable)
    assert "clock" in str(run.error)
    assert run.all("withdraw") == []


def test_a_grant_that_took_longer_than_it_is_valid_is_asked_for_again() -> None:
    run = ask(None, lock=Lock(ttl=1.0))
    sent = run.clock()
    run.answer(Grant(7, sent), after=1.5)
    again = run.asks("attempt")
    assert again.owner == OWNER
    run.answer(Grant(7, run.clock()), after=0.01)
    assert run.result is not None
    assert run.result.grant.sent == pytest.approx(1001.5)
    assert run.all("withdraw") == []


def test_a_grant_that_is_always_too_slow_is_given_back_as_clock_drift() -> None:
    run = ask(None, lock=Lock(ttl=1.0))
    while not run.done and not run.all("withdraw"):
        run.answer(Grant(7, run.clock()), after=1.5)
    assert len(run.all("attempt")) == 3
    run.answer(1)
    assert isinstance(run.error, ClockDrift)
    assert len(run.all("withdraw")) == 1


# How long one reply is waited for.


@pytest.mark.parametrize(
    ("wait", "ttl", "patience"),
    [
        (None, 30.0, 1.0),  # half of connect_timeout: the first reply may get lost, and there is time to ask again
        (None, 1.0, 0.988),  # the ttl less drift
        (0.5, 30.0, 0.25),  # half of what is left of the wait
        (0.01, 30.0, 0.1),  # but long enough for an answer
        (0, 30.0, 2.0),
        (0, 3.0, 1.0),  # a third of the ttl
    ],
)
def test_the_deadline_of_one_reply(wait: float | None, ttl: float, patience: float) -> None:
    attempt = ask(None, wait=wait, lock=Lock(ttl=ttl)).asks("attempt")
    assert attempt.details["patience"] == pytest.approx(patience)
    assert attempt.details["queue"] is (wait != 0)


@pytest.mark.parametrize(("wait", "patience"), [(None, 2.0), (3.5, 1.5)])
def test_after_the_first_answer_a_reply_may_take_all_that_is_left(wait: float | None, patience: float) -> None:
    run = ask(None, wait=wait, lock=Lock(ttl=30.0))
    run.asks("attempt")
    run.answer(Queued(HOLDER, 1.0, 1, 1.0))
    run.clock.now += 2.0
    run.answer(Bell())
    assert run.asks("attempt").details["patience"] == pytest.approx(patience)


def test_abandoning_the_first_attempt_withdraws_it_with_its_limit() -> None:
    clock = Clock()
    run = Run(abandon(asking_at(clock), 1234), clock)
    step = run.asks("withdraw")
    assert step.details["marker"] == 0, "on the same connection the order suffices"
    assert step.otherwise is not None
    assert step.otherwise.details["marker"] == 1234  # type: ignore[attr-defined]
    run.answer(1)
    assert run.done
    assert run.error is None
