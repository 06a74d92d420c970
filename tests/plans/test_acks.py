"""Acks: a grant counts once replicas have it. Branch by branch."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight.base.plan import Acks, ServerSaid
from holdtight.base.values import Grant, Queued
from holdtight.core.acks import longest_wait, shortfall
from holdtight.core.contend import Granted, acquire
from holdtight.core.ending import adopt, downgrade
from holdtight.core.multi import in_one_script
from holdtight.errors import ClockDrift, NotPermitted, Unavailable
from tests.plans.scripted import HOLDER, LOADING, OWNER, SENT, Clock, Lock, Named, Run, asking_at

OLD = b"d" * 24
NOPERM = ServerSaid("NOPERM this user has no permissions to run the 'wait' command")


class Replicas:
    """Two replicas must have the grant."""

    needed = 2

    def wish(self, name: str, seconds: float) -> Acks:
        assert name == "orders"
        return Acks(self.needed, seconds, lambda seconds: [])


def asking(first: Any = None, **how: Any) -> Run[Granted | None]:
    clock = Clock()
    about = asking_at(clock, **how)
    about.acks = Replicas()
    return Run(acquire(about, first), clock)


def counts(run: Run[Any]) -> Acks:
    assert isinstance(run.wish, Acks), f"does not ask replicas but {run.wish or run.error or run.result!r}"
    return run.wish


def grant(run: Run[Any]) -> Grant:
    return Grant(7, run.clock())


def test_a_grant_counts_once_enough_replicas_have_it() -> None:
    run = asking()
    run.asks("attempt")
    run.answer(grant(run))
    counts(run)
    run.answer(2)
    assert run.result is not None
    assert run.result.grant.acks == 2


def test_a_first_grant_counts_no_more_than_others() -> None:
    run = asking(Grant(7, 1000.0))
    counts(run)


def test_with_too_few_it_is_given_back_and_asked_for_again() -> None:
    run = asking()
    run.answer(grant(run))
    run.answer(1, after=1.0)
    assert run.asks("withdraw").details["marker"] == 0
    run.answer(1)
    run.until_due()
    run.asks("attempt")
    run.answer(grant(run))
    run.answer(1, after=1.0)
    run.asks("withdraw")
    run.answer(1)
    assert isinstance(run.error, Unavailable)
    assert "redis://a granted it, but only 1 of 2 replicas acknowledged within 2" in str(run.error)


@pytest.mark.parametrize("unanswered", [None, SENT, LOADING])
def test_if_giving_back_is_not_answered_the_same_owner_does_not_ask_again(unanswered: Any) -> None:
    """The keeper, or the request itself on its way, would take away what it was granted meanwhile."""
    run = asking(wait=60.0)
    run.answer(grant(run))
    run.answer(1)
    run.asks("withdraw")
    run.answer(unanswered)
    assert isinstance(run.error, Unavailable)
    assert "only 1 of 2" not in str(run.error)
    assert "1 of 2 replicas acknowledged, and it did not take the grant back in time" in str(run.error)
    assert "given back" not in str(run.error)
    assert len(run.all("withdraw")) == 1


def test_without_waiting_it_is_unavailable_after_one_try() -> None:
    run = asking(wait=0.0, or_none=True)
    run.answer(grant(run))
    assert counts(run).seconds == 1.0
    run.answer(0, after=1.0)
    run.asks("withdraw")
    run.answer(1)
    assert isinstance(run.error, Unavailable)


def test_after_a_place_in_line_it_is_asked_for_until_the_wait_ends() -> None:
    run = asking(Queued(HOLDER, left=3.0, position=2, look=3.25), wait=10.0)
    run.until_due()
    for _ in range(3):
        run.asks("attempt")
        run.answer(grant(run))
        run.answer(1, after=1.0)
        run.asks("withdraw")
        run.answer(1)
        run.until_due()
    run.asks("attempt")


@pytest.mark.parametrize("failure", [SENT, LOADING])
def test_if_nobody_counts_the_same_owner_asks_again_and_nothing_is_given_back(failure: Exception) -> None:
    run = asking(wait=5.0)
    run.answer(grant(run))
    counts(run)
    run.answer(failure)
    run.until_due()
    assert run.asks("attempt").owner == OWNER
    assert run.all("withdraw") == []


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), NOPERM])
def test_whatever_else_ends_the_wait_gives_it_back(interrupt: BaseException) -> None:
    run = asking()
    run.answer(grant(run))
    counts(run)
    run.answer(interrupt)
    run.asks("withdraw")
    run.answer(1)
    assert isinstance(run.error, KeyboardInterrupt if isinstance(interrupt, KeyboardInterrupt) else NotPermitted)


def test_acknowledgements_that_come_too_late_for_the_lease_do_not_count() -> None:
    run = asking(wait=0.0, lock=Lock(ttl=1.0))
    run.answer(grant(run))
    run.answer(2, after=1.0)
    run.asks("withdraw")
    run.answer(1)
    assert isinstance(run.error, ClockDrift)


@pytest.mark.parametrize(
    ("ttl", "left", "seconds"), [(30.0, None, 1.0), (0.9, None, 0.3), (30.0, 0.5, 0.5), (30.0, 0.0, 0.1)]
)
def test_replicas_have_a_second_or_what_is_left(ttl: float, left: float | None, seconds: float) -> None:
    assert longest_wait(ttl, left) == pytest.approx(seconds)


def test_before_the_first_answer_the_connect_timeout_bounds_it() -> None:
    run = asking(connect_timeout=0.25)
    run.answer(grant(run))
    assert counts(run).seconds == pytest.approx(0.25)


# Adoption, downgrade, several at once.


def adopting() -> Run[Grant]:
    clock = Clock()
    return Run(adopt(Lock(), OLD, OWNER, clock=clock, acks=Replicas()), clock)


def downgrading() -> Run[Grant]:
    clock = Clock()
    return Run(downgrade(Lock(), OWNER, clock=clock, acks=Replicas()), clock)


@pytest.mark.parametrize(("begin", "verb"), [(adopting, "adopt"), (downgrading, "downgrade")])
class TestTurned:
    def test_it_counts_with_enough(self, begin: Any, verb: str) -> None:
        run = begin()
        run.asks(verb)
        run.answer(grant(run))
        run.answer(3)
        assert run.result.acks == 3

    def test_it_is_tried_three_times_and_given_back(self, begin: Any, verb: str) -> None:
        run = begin()
        for _ in range(3):
            run.asks(verb)
            run.answer(grant(run))
            counts(run)
            run.answer(1)
        assert run.asks("withdraw").owner == OWNER
        run.answer(1)
        assert str(run.error) == "1 of 2 replicas acknowledged"

    def test_it_is_given_back_if_the_server_refuses_to_count(self, begin: Any, verb: str) -> None:
        run = begin()
        run.answer(grant(run))
        run.answer(NOPERM)
        run.asks("withdraw")
        run.answer(1)
        assert "NOPERM" in str(run.error)


class Both:
    def __init__(self) -> None:
        self.valid = self.ttl = 10.0
        self.names = ["orders", "stock"]

    def attempt_step(self, owner: bytes, *, now: float) -> Named:
        return Named("multi", owner)

    def withdraw_steps(self, owner: bytes, *, marker: int) -> list[Any]:
        return [Named("withdraw", owner, marker=marker) for _ in self.names]

    def arrival_limit(self, now: float) -> int:
        return 0


def taking_both() -> Run[list[Grant] | None]:
    clock = Clock()
    run = Run(in_one_script(Both(), OWNER, clock=clock, acks=Replicas()), clock)
    run.asks("multi")
    run.answer([Grant(7, clock()), Grant(8, clock())])
    counts(run)
    return run


def test_several_count_together() -> None:
    run = taking_both()
    run.answer(2)
    assert run.result is not None
    assert [each.acks for each in run.result] == [2, 2]


@pytest.mark.parametrize("answer", [1, SENT, LOADING, KeyboardInterrupt()])
def test_several_with_too_few_are_all_given_back(answer: Any) -> None:
    run = taking_both()
    run.answer(answer)
    for _ in range(2):
        run.asks("withdraw")
        run.answer(1)
    assert run.result is None
    assert isinstance(run.error, KeyboardInterrupt) == isinstance(answer, KeyboardInterrupt)


# What the requests bring.


def test_a_count_behind_nothing_that_changed_is_no_count() -> None:
    full = ServerSaid("OOM command not allowed")
    assert Acks.counted([True, True, 2]) == 2
    assert Acks.counted([full, True, 2]) == 2
    assert Acks.counted([True, full, 0]) == 0
    for marks in ([full, False], [False, False], [full, full]):
        with pytest.raises(ServerSaid):
            Acks.counted([*marks, 2])
    with pytest.raises(ServerSaid, match="NOPERM"):
        Acks.counted([True, True, NOPERM])


def test_a_renewal_counts_with_enough_only() -> None:
    assert shortfall(2, 2) == shortfall(3, 2) == ""
    assert shortfall(1, 2) == "1 of 2 replicas acknowledged"
    assert shortfall("it did not answer in time", 2) == "it did not answer in time"
