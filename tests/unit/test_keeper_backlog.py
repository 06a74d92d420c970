"""The keeper when it is late: larger batches, retries, and the event that tells of it."""

from __future__ import annotations

import pytest

from holdtight.keeper.batches import BATCH
from holdtight.keeper.connection import UNDER_WAY
from holdtight.keeper.keeper import SLICE
from holdtight.keeper.schedule import Backlog
from tests.unit.keeping import Charge, Link, Place, Still, begins, connected, due


def test_work_is_as_usual_for_a_fifth_of_the_interval_and_quadruples_with_each_further_twentieth() -> None:
    backlog = Backlog()
    assert backlog.stretch(100.0, 100.0, 10.0) == 1, "the backlog begins"
    late = (-1.0, 0.0, 1.99, 2.0, 2.49, 2.5, 3.0, 3.99, 9.99, 1e9)
    times = [backlog.stretch(100.0, 100.0 + by, 10.0) for by in late]
    assert times == [1, 1, 1, 4, 4, 16, 64, 256, 256, 256]


def test_a_process_that_was_stopped_goes_on_in_small_batches_unless_half_the_time_to_the_deadline_is_over() -> None:
    backlog = Backlog()
    assert [backlog.stretch(100.0, now, 10.0) for now in (107.0, 108.9, 109.0)] == [1, 1, 4]
    backlog.done()
    assert backlog.stretch(100.0, 110.0, 10.0) == 256


def test_a_backlog_ends_when_everything_was_sent(keeper: Still) -> None:
    place = Place()
    due(keeper, *[Charge(place) for _ in range(BATCH)])
    link = keeper.connected(place)
    keeper.hears(place, *[1] * BATCH)
    keeper.turn()
    link.writes.clear()
    for _ in range(200):
        keeper.add(Charge(place, interval=12), keeper.now - 12)
    keeper.turn(keeper.now + 4)
    assert max(map(len, link.writes)) == BATCH, "the keeper has only just begun with these"
    link.writes.clear()
    keeper.hears(place, *[1] * UNDER_WAY)
    keeper.turn(keeper.now + 4)
    assert len(link.writes[0]) > BATCH


@pytest.mark.parametrize(("late", "times"), [(1.9, 1), (2.1, 4), (2.6, 16), (4.1, 256)])
def test_a_late_keeper_takes_and_sends_more_at_once_in_one_write(keeper: Still, late: float, times: int) -> None:
    place = Place()
    charges = [Charge(place, name=f"{number}") for number in range(20_000)]
    for charge in charges:
        keeper.add(charge, keeper.now - charge.interval)
    begins(keeper)
    keeper.turn(keeper.now + late)
    assert len(keeper._connections[place].waiting) == SLICE * times  # type: ignore[index]
    link = keeper.connected(place)
    keeper.turn()
    assert [len(each) for each in link.writes] == ([BATCH, BATCH] if times == 1 else [UNDER_WAY * times])


def test_a_keeper_that_has_caught_up_works_in_small_pieces_again(keeper: Still) -> None:
    place = Place()
    late = [Charge(place, name="late") for _ in range(200)]
    for charge in late:
        keeper.add(charge, keeper.now - charge.interval)
    begins(keeper)
    keeper.turn(keeper.now + 4)
    link = keeper.connected(place)
    assert len(link.writes[0]) == 200
    keeper.hears(place, *[1] * 200)
    link.writes.clear()
    keeper.now += 1
    due(keeper, *[Charge(place, name="on time") for _ in range(200)])
    keeper.turn()
    assert [len(each) for each in link.writes] == [BATCH, BATCH]


def test_what_is_asked_for_meanwhile_does_not_slow_down_what_is_late(keeper: Still) -> None:
    place = Place()
    for _ in range(200):
        keeper.add(Charge(place), keeper.now - 10)
    begins(keeper)
    keeper.now += 3
    keeper._do_due(keeper.now)
    keeper.ask(Charge(place, name="asked"))
    link = keeper.connected(place)
    assert link.writes[0][0] == b"asked"
    assert len(link.writes[0]) == 201


def test_the_server_gets_more_time_for_a_large_batch_while_it_answers(keeper: Still) -> None:
    place = Place()
    for _ in range(200):
        keeper.add(Charge(place), keeper.now - 10)
    begins(keeper)
    keeper.turn(1003.0)
    link = keeper.connected(place)
    for second in (1004.9, 1006.8, 1008.7):
        keeper.now = second
        keeper.hears(place, *[1] * 40)
        keeper.turn()
    assert not link.closed
    keeper.turn(1010.7)
    assert link.closed, "two seconds without an answer"


def retried(keeper: Still, count: int, *, late: float) -> Link:
    """Charges that are sent so much later than they are due, and which the server then refuses."""
    place = Place()
    link = connected(keeper, place)
    charges = [Charge(place) for _ in range(count)]
    due_at = keeper.now
    for charge in charges:
        charge.well = False
        keeper.add(charge, due_at - charge.interval)
    keeper.now += late
    while any(not charge.log for charge in charges):
        keeper.turn()
        keeper.hears(place, *["not now"] * len(keeper._connections[place]._sent))  # type: ignore[index]
    for charge in charges:
        charge.well = True
    link.writes.clear()
    return link


def test_charges_that_were_late_and_failed_are_sent_again_as_fast_as_they_were_sent_before(keeper: Still) -> None:
    link = retried(keeper, 400, late=11.0)
    keeper.turn(keeper.now + 1.3)
    assert [len(each) for each in link.writes] == [401], "with the one that is due now"


def test_nor_are_they_slower_if_the_keeper_asks_at_once_about_everything(keeper: Still) -> None:
    link = retried(keeper, 400, late=11.0)
    place = next(iter(keeper._connections))
    keeper.add(Charge(place, interval=1000.0, name="on time"), keeper.now)  # type: ignore[arg-type]
    keeper.hurry(place)
    keeper.turn()
    assert [len(each) for each in link.writes] == [402]
    assert link.writes[0][-1] == b"on time", "the late ones first"


def test_a_charge_that_failed_on_time_is_retried_in_small_batches(keeper: Still) -> None:
    link = retried(keeper, 400, late=0.0)
    keeper.turn(keeper.now + 1.3)
    assert [len(each) for each in link.writes] == [BATCH, BATCH]


# A keeper that is late says so.


def test_a_charge_is_told_if_it_is_sent_more_than_half_an_interval_after_it_was_due(keeper: Still) -> None:
    place = Place()
    due(keeper, Charge(place))
    keeper.connected(place)
    keeper.hears(place, 1)
    late, on_time = Charge(place), Charge(place)
    keeper.add(late, 1000.0)
    keeper.add(on_time, 1000.5)
    keeper.turn(1015.5)
    assert late.log == ["late 5.5", "late 5.5", "request"], "when it is taken, and when it is sent"
    assert on_time.log == ["late 5", "request"], "what is taken with it is told as well"


def test_a_keeper_that_waits_for_its_connection_is_not_late(keeper: Still) -> None:
    place = Place()
    charge = Charge(place)
    due(keeper, charge)
    keeper.now += 9
    keeper.connected(place)
    assert charge.log == ["request"]


def test_a_charge_that_is_overdue_because_the_keeper_is_late_is_told_that_first(keeper: Still) -> None:
    charge = Charge(Place(), interval=10, deadline=1030.0)
    lane = keeper.lane(10.0)
    lane.charges[charge] = 1010.0
    keeper.arm(lane, 1010.0)
    keeper.turn(1040.0)
    assert charge.log == ["late 30", "overdue"]


def test_a_server_that_refuses_makes_no_late_keeper(keeper: Still) -> None:
    place = Place()
    connected(keeper, place)
    charge = Charge(place)
    charge.well = False
    due(keeper, charge)
    for _ in range(8):
        keeper.hears(place, "not now")
        keeper.turn(keeper.now + charge.interval / 8)
    assert set(charge.log) == {"request", "answered not now"}
    assert keeper.now > 1010 - 1
