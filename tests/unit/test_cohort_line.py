"""The local line of a cohort after an interrupt: its members are served all the same."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from holdtight.clients.cohort_line import CHECK, LEAD, Cohort, Member, Turn

KEY = ("a", 30.0, None)


class Waiting(Member):
    def __init__(self, *, interrupted: bool = False) -> None:
        super().__init__(0.0)
        self.news: list[Turn] = []
        self._interrupted = interrupted

    def wake(self, news: Turn) -> bool:
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        self.news.append(news)
        return True


class Keeper:
    """Calls what is due when the test moves the clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.agenda: list[tuple[float, Callable[[float], None]]] = []

    def at(self, when: float, what: Callable[[float], None]) -> None:
        self.agenda.append((when, what))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = [entry for entry in self.agenda if entry[0] <= self.now]
        self.agenda = [entry for entry in self.agenda if entry[0] > self.now]
        for when, what in due:
            what(when)


@pytest.fixture
def keeper() -> Keeper:
    return Keeper()


@pytest.fixture
def cohort(keeper: Keeper) -> Cohort:
    runtime: Any = SimpleNamespace(clock=lambda: keeper.now, keeper=keeper)
    return Cohort(runtime)


def enter(cohort: Cohort, keeper: Keeper, member: Member) -> bool:
    return cohort.enter(KEY, member, keeper.now, 10)


def tenure(keeper: Keeper) -> Any:
    return SimpleNamespace(
        owner=b"o", fence=1, since=keeper.now, marker=0, terms=SimpleNamespace(interval=10.0, valid=29.0)
    )


def test_a_leader_that_was_not_woken_is_woken_by_the_next_check(cohort: Cohort, keeper: Keeper) -> None:
    first, second = Waiting(), Waiting(interrupted=True)
    assert enter(cohort, keeper, first)
    assert not enter(cohort, keeper, second)
    with pytest.raises(KeyboardInterrupt):
        cohort.quit(KEY, first, keeper.now)
    assert second.news == []
    keeper.pass_time(CHECK)
    assert second.news == [LEAD]


def test_a_line_that_lost_its_leader_before_the_batch_began_gets_another(
    cohort: Cohort, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    first, second = Waiting(), Waiting()
    enter(cohort, keeper, first)
    enter(cohort, keeper, second)
    monkeypatch.setattr("holdtight.clients.cohort_line.Batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cohort.begin(KEY, first, tenure(keeper), keeper.now)
    cohort.quit(KEY, first, keeper.now)
    keeper.pass_time(CHECK)
    assert second.news == [LEAD]


def test_a_member_whose_hand_over_was_interrupted_leads_when_the_window_is_over(cohort: Cohort, keeper: Keeper) -> None:
    first, second = Waiting(), Waiting(interrupted=True)
    enter(cohort, keeper, first)
    enter(cohort, keeper, second)
    holder = tenure(keeper)
    cohort.begin(KEY, first, holder, keeper.now)
    with pytest.raises(KeyboardInterrupt):
        cohort.hand_on(KEY, holder, keeper.now)
    keeper.pass_time(CHECK)
    assert second.news == [LEAD]


def test_a_line_is_checked_while_it_has_members_and_no_longer(cohort: Cohort, keeper: Keeper) -> None:
    first, second = Waiting(), Waiting()
    enter(cohort, keeper, first)
    assert keeper.agenda == []
    enter(cohort, keeper, second)
    for _ in range(3):
        keeper.pass_time(CHECK)
        assert len(keeper.agenda) == 1
    assert second.news == [], "the leader asks the server meanwhile"
    cohort.quit(KEY, second, keeper.now)
    keeper.pass_time(CHECK)
    assert keeper.agenda == []
