"""The keeper without a server: the deadlines of its charges, and the agenda."""

from __future__ import annotations

from holdtight.keeper.keeper import LOOK_AHEAD
from tests.unit.keeping import Charge, Place, Still, asked


def test_a_charge_past_its_deadline_is_overdue_and_nothing_is_asked(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=10, deadline=1005.0)
    keeper.add(charge, 1000.0)
    assert keeper.turn(1000.0) == 1005.0, "it wakes for the deadline, not for the renewal"
    keeper.turn(1005.0)
    assert charge.log == ["overdue"]
    keeper.turn(1010.0)
    assert charge.log == ["overdue"]
    assert place.opened == 0


def test_a_charge_that_is_only_watched_is_overdue_when_it_is_due(keeper: Still) -> None:
    charge = Charge(Place(), interval=10, deadline=1010.0)
    keeper.add(charge, 1000.0)
    keeper.turn(1010.0)
    assert charge.log == ["overdue"]


def test_a_charge_that_was_sent_for_and_not_answered_is_overdue_at_its_deadline(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=1.0, deadline=1003.0)
    keeper.add(charge, 1000.0)
    keeper.turn(1001.0)
    keeper.connected(place)
    assert keeper.turn() <= 1003.0
    keeper.turn(1003.0)
    assert charge.log[-1] == "overdue"


def test_a_deadline_that_moved_is_watched_at_its_new_place(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=1.0, deadline=1003.0)
    keeper.add(charge, 1000.0)
    keeper.turn(1001.0)
    keeper.connected(place)
    charge.deadline = 1004.0
    keeper.hears(place, 1)
    keeper.turn(1003.0)
    keeper.hears(place, 1)
    assert "overdue" not in charge.log
    keeper.turn(1004.0)
    assert charge.log[-1] == "overdue"


def test_the_agenda_is_done_in_the_order_of_time_and_of_coming(keeper: Still) -> None:
    done: list[str] = []
    for when, what in ((3.0, "c"), (1.0, "a"), (2.0, "b1"), (2.0, "b2")):
        keeper.at(1000.0 + when, lambda now, what=what: done.append(what))  # type: ignore[misc]
    assert keeper.turn(1000.5) == 1001.0
    assert done == []
    assert keeper.turn(1002.0) == 1003.0
    assert done == ["a", "b1", "b2"]
    keeper.turn(1003.0)
    assert done == ["a", "b1", "b2", "c"]


def test_what_is_kept_without_a_deadline_leaves_nothing_on_the_agenda(keeper: Still) -> None:
    place = Place()
    place.client.known = False  # it sends no record: every line is a request
    waiter = Charge(place, interval=1.0, deadline=float("inf"))
    keeper.add(waiter, 1000.0)
    keeper.turn(1001.0)
    link = keeper.connected(place)
    for second in range(2, 100):
        keeper.hears(place, *(1 for batch in link.writes for _ in batch))  # not more than was asked
        link.writes.clear()
        keeper.turn(1000.0 + second)
    assert place.opened == 1
    assert asked(waiter) > 50
    assert len(keeper.agenda) < 5


def test_renewals_that_are_answered_leave_nothing_on_the_agenda_for_each_charge(keeper: Still) -> None:
    place = Place()
    charges = [Charge(place, interval=10.0, deadline=1030.0, name=str(number)) for number in range(500)]
    for charge in charges:
        keeper.add(charge, 1000.0)
    keeper.turn(1010.0)
    link = keeper.connected(place)
    while not all(charge.log[-1:] == ["answered 1"] for charge in charges):
        link.incoming += [1] * len(keeper._connections[place]._sent)  # type: ignore[index]
        keeper.hears(place)
        keeper.turn()
    assert keeper.statistics()["away"] == 0
    assert len(keeper.agenda) < 500 / 10, "they were looked after many at a time"
    keeper.turn(1010.0 + 2 * LOOK_AHEAD)
    assert len(keeper.agenda) < 5


def test_charges_that_stay_away_are_overdue_each_at_its_own_deadline(keeper: Still) -> None:
    place = Place()
    charges = [Charge(place, interval=1000.0, deadline=2005.0 + number) for number in range(10)]
    for charge in charges:
        keeper.add(charge, 1000.0)
    keeper.turn(2000.0)  # no connection is made
    for number in range(10):
        keeper._do_due(2004.9 + number)
        assert charges[number].log == []
        keeper._do_due(2005.0 + number)
        assert charges[number].log == ["overdue"]
    assert keeper.statistics()["away"] == 0


def test_a_bad_charge_among_those_that_are_away_does_not_hide_the_deadlines_of_the_others(keeper: Still) -> None:
    place = Place()
    charges = [Charge(place, interval=10.0, deadline=1012.0) for _ in range(3)]
    charges[0].fails_in = "overdue"
    for charge in charges:
        keeper.add(charge, 1000.0)
    keeper.turn(1010.0)
    keeper._do_due(1012.0)
    assert [charge.log for charge in charges] == [["overdue"]] * 3


def test_a_charge_that_is_asked_for_at_once_is_overdue_at_its_deadline(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=1000.0, deadline=1007.0)
    keeper.ask(charge)
    keeper.turn(1000.0)
    keeper._do_due(1007.0)
    assert charge.log == ["overdue"]
