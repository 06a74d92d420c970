"""A plan asks again after a broken connection and a late request, but not for ever."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdtight.base.plan import CLOCKS_DISAGREE, LinkDown, Plan, Step
from holdtight.base.values import Late
from holdtight.core.again import MOST_LATE, MOST_TRIES, asked_in_time, read_again
from holdtight.recipes.leading import proclaim

BROKEN = LinkDown("it broke", sent=True)
STALE = LinkDown("it had died", sent=True, stale=True)


class Asked:
    """Makes the requests of a plan, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def step(self) -> Step:
        self.count += 1
        return Step(b"", None, lambda reply, sent: reply, patience=1.0)

    # As the place of `proclaim`.

    def check_supports(self, what: str, name: str) -> None:
        pass

    def proclaim_step(self, name: str, owner: bytes, label: str) -> Step:
        return self.step()


def play(plan: Plan[Any], *answers: Any) -> Any:
    """What the plan returns after these answers. All of them must be used."""
    next(plan)
    for at, answer in enumerate(answers):
        try:
            plan.throw(answer) if isinstance(answer, LinkDown) else plan.send(answer)
        except StopIteration as end:
            assert at == len(answers) - 1
            return end.value
    raise AssertionError("it asks once more")


@pytest.mark.parametrize("before", [(), (BROKEN,), (Late(),), (BROKEN, BROKEN), (Late(), BROKEN) * 2])
def test_the_answer_to_the_first_request_in_time_counts(before: tuple[Any, ...]) -> None:
    asked = Asked()
    assert play(asked_in_time(asked.step), *before, "answer") == "answer"
    assert asked.count == len(before) + 1, "each request has a limit of its own"


def test_the_last_broken_connection_is_told() -> None:
    with pytest.raises(LinkDown, match="it broke"):
        play(asked_in_time(Asked().step), *[BROKEN] * MOST_TRIES)


def test_requests_that_are_always_late_end() -> None:
    asked = Asked()
    with pytest.raises(LinkDown, match=CLOCKS_DISAGREE):
        play(asked_in_time(asked.step), *[Late()] * MOST_LATE)
    assert asked.count == MOST_LATE


def test_a_label_that_is_always_late_ends() -> None:
    with pytest.raises(LinkDown, match=CLOCKS_DISAGREE):
        play(proclaim(Asked(), "poller", SimpleNamespace(owner=b"owner"), "host"), *[Late()] * MOST_LATE)


def test_a_read_is_repeated_once_if_its_connection_had_died() -> None:
    wish = Asked().step()
    assert play(read_again(wish), "answer") == "answer"
    assert play(read_again(wish), STALE, "answer") == "answer"
    with pytest.raises(LinkDown, match="had died"):
        play(read_again(wish), STALE, STALE)
    with pytest.raises(LinkDown, match="broke"):
        play(read_again(wish), BROKEN)
