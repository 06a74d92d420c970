"""The local line of a cohort after an interrupt: its members are served all the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from holdtight.clients.cohort_line import CHECK, LEAD, Batch, Cohort, Line, Member, Turn
from tests.support.interrupts import Moments, interrupted_at

KEY = ("a", 30.0, None)


class Waiting(Member):
    """A member whose first wake-up may be interrupted."""

    def __init__(self, *, interrupted: bool = False) -> None:
        super().__init__(0.0)
        self.told: list[Turn | None] = []
        self._interrupted = interrupted

    def wake(self) -> bool:
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        self.told.append(self.news)
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
    terms = SimpleNamespace(interval=10.0, valid=29.0)
    return SimpleNamespace(owner=b"o", fence=1, since=keeper.now, marker=0, ended=False, terms=terms)


def test_a_leader_that_was_not_woken_is_woken_by_the_next_check(cohort: Cohort, keeper: Keeper) -> None:
    first, second = Waiting(), Waiting(interrupted=True)
    assert enter(cohort, keeper, first)
    assert not enter(cohort, keeper, second)
    with pytest.raises(KeyboardInterrupt):
        cohort.quit(KEY, first, keeper.now)
    assert second.told == []
    keeper.pass_time(CHECK)
    assert second.told == [LEAD]


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
    assert second.told == [LEAD]


@pytest.mark.parametrize("mend", ["by the interrupted thread", "by the keeper"])
def test_a_member_whose_hand_over_was_interrupted_has_the_grant(cohort: Cohort, keeper: Keeper, mend: str) -> None:
    first, second = Waiting(), Waiting(interrupted=True)
    enter(cohort, keeper, first)
    enter(cohort, keeper, second)
    holder = tenure(keeper)
    cohort.begin(KEY, first, holder, keeper.now)
    with pytest.raises(KeyboardInterrupt):
        cohort.hand_on(KEY, holder, keeper.now)
    assert holder.ended
    if mend == "by the keeper":
        keeper.pass_time(CHECK)
    else:
        cohort.nudge(KEY)
    assert second.told == [Turn(b"o", 2, holder.since, 0)]


def line_with_a_holder(count: int) -> tuple[Keeper, Cohort, Any, list[Waiting]]:
    keeper = Keeper()
    runtime: Any = SimpleNamespace(clock=lambda: keeper.now, keeper=keeper)
    cohort, leader, holder = Cohort(runtime), Waiting(), tenure(keeper)
    members = [Waiting() for _ in range(count)]
    for member in (leader, *members):
        enter(cohort, keeper, member)
    cohort.begin(KEY, leader, holder, keeper.now)
    return keeper, cohort, holder, members


def test_a_hand_over_that_is_interrupted_anywhere_has_happened_or_not() -> None:
    """Either the holder has the grant and must release it, or one member has it and knows. The next one is served in
    both cases."""
    moments, happened, places = Moments(), set[bool](), 0
    while True:
        keeper, cohort, holder, (first, second) = line_with_a_holder(2)
        place = interrupted_at(moments, partial(cohort.hand_on, KEY, holder, keeper.now))
        if place is None:
            break
        places += 1
        cohort.nudge(KEY)
        assert [first.news is not None, second.news] == [holder.ended, None], place
        assert bool(first.told) is holder.ended, place
        happened.add(holder.ended)
        if holder.ended:
            assert cohort.hand_on(KEY, first, keeper.now), place
            assert second.told == [Turn(b"o", 3, holder.since, 0)], place
        else:
            cohort.over(KEY, holder)
            assert first.told == [LEAD], place
    assert happened == {True, False}
    assert places > 5


@pytest.mark.parametrize("verb", ["enter", "begin", "over", "quit", "quit the grant"])
def test_a_line_in_which_anything_was_interrupted_goes_on(verb: str) -> None:
    """The interrupted member leaves; then all others are served in order."""
    moments, places = Moments(), 0
    while True:
        keeper, cohort, holder, members = line_with_a_holder(3)
        interrupted: Any = holder
        granted = holder
        what: partial[Any] = partial(cohort.over, KEY, holder)
        if verb in ("enter", "begin"):
            cohort.over(KEY, holder)
            interrupted = members.pop(0)
            assert interrupted.told == [LEAD]
            granted = tenure(keeper)
            what = partial(cohort.begin, KEY, interrupted, granted, keeper.now)
        if verb == "enter":
            cohort.quit(KEY, interrupted, keeper.now)
            interrupted = Waiting()
            what = partial(cohort.enter, KEY, interrupted, keeper.now, 10)
        elif verb == "quit":
            interrupted = members.pop(1)
            what = partial(cohort.quit, KEY, interrupted, keeper.now)
        elif verb == "quit the grant":
            interrupted = members.pop(0)
            assert cohort.hand_on(KEY, holder, keeper.now)
            what = partial(cohort.quit, KEY, interrupted, keeper.now)
        place = interrupted_at(moments, what)
        if place is None:
            break
        places += 1
        if isinstance(interrupted, Member):
            cohort.quit(KEY, interrupted, keeper.now)
        for each in (granted, interrupted):
            cohort.over(KEY, each)
        keeper.pass_time(CHECK)
        for member in members:
            keeper.pass_time(CHECK)
            told = [each for each in member.told if each is not None]
            assert [member.news] == told[:1], place
            cohort.quit(KEY, member, keeper.now)
            cohort.over(KEY, member)
        assert not cohort._lines, place  # pyright: ignore[reportPrivateUsage]
    assert places > 5


def test_a_line_is_checked_while_it_has_members_and_no_longer(cohort: Cohort, keeper: Keeper) -> None:
    first, second = Waiting(), Waiting()
    enter(cohort, keeper, first)
    assert keeper.agenda == []
    enter(cohort, keeper, second)
    for _ in range(3):
        keeper.pass_time(CHECK)
        assert len(keeper.agenda) == 1
    assert second.told == [], "the leader asks the server meanwhile"
    cohort.quit(KEY, second, keeper.now)
    keeper.pass_time(CHECK)
    assert keeper.agenda == []


TURN = Turn(b"o", 2, 1000.0, 0)


def told(news: Turn, *, awake: bool) -> Waiting:
    """A member that was given these news, and has seen them or has not even been woken."""
    member = Waiting()
    member.news, member.awake = news, awake
    return member


def states() -> list[tuple[str, str, str, tuple[str, ...], bool]]:
    """Every state in which an interrupt could leave a line: who leads and whether it knows, who has the grant and
    whether it knows, whom the deque has, and whether the keeper was to look."""
    deques = [
        each for size in range(4) for each in itertools.product(("in line", "known", "leader", "holder"), repeat=size)
    ]
    return [
        (leader, batch, holder, queue, timed)
        for leader, batch, holder, queue, timed in itertools.product(
            ("none", "asleep", "awake"),
            ("none", "open", "closed"),
            ("tenure", "asleep", "awake"),
            deques,
            (False, True),
        )
        if (holder == "tenure" or batch != "none")
        and ("leader" not in queue or leader != "none")
        and ("holder" not in queue or holder != "tenure")
        and queue.count("leader") <= 1
        and queue.count("holder") <= 1
    ]


def test_a_check_of_the_keeper_mends_every_state() -> None:
    """Afterwards all that have news know them, and a line with members has a leader, or has one when the window
    closes."""
    for state in states():
        leads, kind, holds, queue, timed = state
        keeper = Keeper()
        runtime: Any = SimpleNamespace(clock=lambda keeper=keeper: keeper.now, keeper=keeper)
        cohort, line = Cohort(runtime), Line()
        cohort._lines[KEY] = line  # pyright: ignore[reportPrivateUsage]
        leader = None if leads == "none" else told(LEAD, awake=leads == "awake")
        holder: Any = tenure(keeper) if holds == "tenure" else told(TURN, awake=holds == "awake")
        line.leader = leader
        if kind != "none":
            line.batch = Batch(tenure(keeper), keeper.now + (0.005 if kind == "open" else -0.005))
            line.batch.holder = holder
        standing: dict[str, Any] = {"leader": leader, "holder": holder}
        for what in queue:
            line.members.append(Waiting() if what == "in line" else standing.get(what) or told(TURN, awake=True))
        waiting: list[Any] = [member for member in line.members if member.news is None]
        if timed and line.batch is not None and line.members:
            cohort._time(KEY, line)  # pyright: ignore[reportPrivateUsage]
        cohort._check(KEY, line)  # pyright: ignore[reportPrivateUsage]
        if queue:
            for each in (leader, holder if kind != "none" else None):
                assert not isinstance(each, Waiting) or each.awake or each.told, state
        if kind == "open" and leader is None:
            assert not any(member.told for member in waiting), f"{state}: the window is open"
        keeper.pass_time(CHECK)
        if not waiting:
            assert not line.members or leader is not None or kind == "open", state
        elif leader is None:
            assert set(waiting[0].told) == {LEAD}, state
            assert line.leader is waiting[0], state
        if kind == "none" and leader is None and not waiting:
            assert not cohort._lines, state  # pyright: ignore[reportPrivateUsage]
        assert all(member.told == [] for member in waiting[1:]), state
        assert not [member for member in waiting if not member.told] or keeper.agenda, f"{state}: nothing checks it"


def test_a_grant_is_handed_on_no_longer_than_until_half_of_the_time_to_its_renewal(
    cohort: Cohort, keeper: Keeper
) -> None:
    """The window is longer than that: only the bound by the tenure's own times ends the batch."""
    leader = Waiting()
    assert enter(cohort, keeper, leader)
    mine = tenure(keeper)
    mine.terms.interval = 0.004
    cohort.begin(KEY, leader, mine, keeper.now)
    keeper.now += 0.001
    assert not enter(cohort, keeper, Waiting())
    keeper.now += 0.0015
    assert not cohort.hand_on(KEY, mine, keeper.now)
