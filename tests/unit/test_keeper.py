"""The keeper without a server: lanes, retries, dropped clients, its thread.

Deadlines are in test_keeper_deadlines.py, connections in test_keeper_connection.py and test_keeper_batches.py.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import pytest

from holdtight.base.callbacks import tell
from holdtight.keeper.keeper import SOON, Keeper
from holdtight.keeper.settling import SHORTEST_RETRY
from tests.unit.keeping import Charge, Link, Place, Still, asked, due

# Lanes.


def test_a_charge_is_due_one_interval_after_it_was_added(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=10)
    keeper.add(charge, 1000.0)
    assert keeper.turn(1000.0) == 1010.0
    keeper.turn(1009.9)
    assert place.opened == 0
    keeper.turn(1010.0)
    keeper.connected(place)
    assert place.link.writes == [[b"x"]]


def test_charges_of_one_interval_share_a_lane_and_others_do_not(keeper: Still) -> None:
    place = Place()
    for interval in (10, 10, 20):
        keeper.add(Charge(place, interval=interval), 1000.0)
    statistics = keeper.statistics()
    assert (statistics["charges"], statistics["lanes"]) == (3, 2)


def test_a_charge_that_was_dropped_is_never_asked(keeper: Still) -> None:
    place = Place()
    charge = Charge(place)
    keeper.add(charge, 1000.0)
    keeper.drop(charge)
    keeper.drop(charge)
    keeper.drop(Charge(place, interval=99))  # of a lane that does not exist
    keeper.turn(2000.0)
    assert place.opened == 0
    assert charge.log == []


def test_a_charge_that_is_dead_when_it_is_due_is_never_asked(keeper: Still) -> None:
    place = Place()
    charge = Charge(place)
    keeper.add(charge, 1000.0)
    charge.alive = False
    keeper.turn(1010.0)
    assert charge.log == []
    assert keeper.statistics()["charges"] == 0


def test_a_lock_taken_and_released_over_and_over_wakes_the_thread_once_an_interval(keeper: Still) -> None:
    place = Place()
    for number in range(1000):
        charge = Charge(place, interval=10)
        keeper.add(charge, 1000.0 + number / 1000)
        keeper.drop(charge)
    assert keeper.wakes == 1
    assert keeper.turn(1001.0) == 1010.0, "it looks once, when the first would have been due"
    assert keeper.turn(1010.0) == float("inf")
    keeper.add(Charge(place, interval=10), 1010.0)
    assert keeper.wakes == 2


def test_an_empty_lane_is_disarmed_and_armed_again_by_the_next_charge(keeper: Still) -> None:
    place = Place()
    first = Charge(place)
    keeper.add(first, 1000.0)
    keeper.turn(1010.0)
    assert keeper.turn(1010.0) > 1010.0
    again = Charge(place)
    keeper.add(again, 1011.0)
    assert keeper.wakes >= 2
    assert keeper.turn(1011.0) <= 1021.0


def test_a_charge_added_while_the_lane_is_being_disarmed_is_not_forgotten(keeper: Still) -> None:
    place = Place()
    late, lane, came = Charge(place), keeper.lane(10.0), list[bool]()

    class Charges(OrderedDict[Any, float]):
        """Another thread, which knows the lane, adds right after the keeper has seen that it is empty."""

        def __len__(self) -> int:
            size = super().__len__()
            if not lane.armed and not came:
                came.append(True)
                self[late] = 1010.0
                if not lane.armed:
                    keeper.arm(lane, 1010.0)
            return size

        def __bool__(self) -> bool:
            return len(self) > 0

    keeper.arm(lane, 1000.0)
    lane.charges = Charges()
    keeper.turn(1000.0)
    assert late in lane.charges
    assert lane.armed, "a lane that holds charges is armed"
    keeper.turn(1010.0)
    keeper.connected(place)
    assert asked(late) == 1


def test_a_charge_that_was_added_to_a_lane_known_from_before_can_be_dropped(keeper: Still) -> None:
    place = Place()
    lane = keeper.lane(10.0)  # a lock keeps its lane, and adds to it without asking
    keeper.add(first := Charge(place), 1000.0)
    keeper.drop(first)
    keeper.turn(1010.0)  # left empty
    charge = Charge(place)
    lane.charges[charge] = 1030.0
    keeper.arm(lane, 1030.0)
    keeper.drop(charge)
    assert charge not in lane.charges


def test_a_charge_whose_grant_took_long_is_renewed_before_those_that_came_first(keeper: Still) -> None:
    place = Place()
    quick, slow = Charge(place, deadline=1029.0), Charge(place, deadline=1020.0)
    keeper.add(quick, 1009.0)
    keeper.add(slow, 1000.0)  # asked for at 1000, answered only now
    keeper.turn(1012.0)
    assert [charge for charge, _ in keeper._connections[place].waiting] == [slow]  # type: ignore[index]


def test_lanes_of_ttls_that_were_used_once_do_not_stay_for_ever(keeper: Still) -> None:
    place = Place()
    for number in range(5000):
        charge = Charge(place, interval=10 + number / 1000)
        keeper.add(charge, 1000.0)
        keeper.drop(charge)
    keeper.turn(2000.0)
    assert keeper.statistics()["lanes"] < 1000


# After an answer.


def test_a_charge_that_went_well_is_due_one_interval_later(keeper: Still) -> None:
    charge = Charge(Place(), interval=10)
    keeper.settled(charge, well=True, sent=1000.0, now=1000.0)
    assert keeper.turn(1000.0) == 1010.0


def test_a_charge_that_did_not_go_well_is_asked_again_soon(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=8)
    keeper.settled(charge, well=False, sent=1000.0, now=1000.0)
    assert keeper.turn(1000.0) == 1001.0
    keeper.turn(1001.0)
    keeper.connected(place)
    assert asked(charge) == 1


@pytest.mark.parametrize(("interval", "pause"), [(0.001, SHORTEST_RETRY), (4.0, 0.5), (80.0, 1.0), (1e6, 1.0)])
def test_the_pause_is_an_eighth_of_the_interval_within_bounds(keeper: Still, interval: float, pause: float) -> None:
    keeper.settled(Charge(Place(), interval=interval), well=False, sent=1000.0, now=1000.0)
    assert keeper.turn(1000.0) == pytest.approx(1000.0 + pause)


def test_it_is_not_asked_again_after_its_deadline_but_overdue(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=8, deadline=1000.5)
    keeper.settled(charge, well=False, sent=1000.0, now=1000.0)
    assert keeper.turn(1000.0) == 1000.5
    keeper.turn(1000.5)
    assert charge.log == ["overdue"]
    assert place.opened == 0


@pytest.mark.parametrize("well", [True, False])
def test_a_charge_that_is_over_is_not_kept(keeper: Still, well: bool) -> None:
    charge = Charge(Place())
    charge.alive = False
    keeper.settled(charge, well=well, sent=1000.0, now=1000.0)
    assert keeper.turn(5000.0) == float("inf")


def test_a_charge_that_died_during_the_pause_is_not_asked(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=8)
    keeper.settled(charge, well=False, sent=1000.0, now=1000.0)
    charge.alive = False
    keeper.turn(1001.0)
    assert place.opened == 0


# Clients that are dropped.


def test_the_connection_of_a_client_that_was_dropped_is_closed_once_nothing_is_left_to_do(keeper: Still) -> None:
    place, keeper._thread = Place(), threading.current_thread()
    charge = Charge(place)
    due(keeper, charge)
    link = keeper.connected(place)
    keeper.forget(place, dropped=True)  # type: ignore[arg-type]
    keeper.turn(1001.0)
    assert not link.closed, "a request is under way"
    charge.alive = False
    keeper.hears(place, 1)
    keeper.turn(1001.0 + SOON)
    assert keeper.statistics()["connections"] == 0
    assert link.closed


def test_no_connection_is_made_to_remove_the_record_of_a_client_that_holds_nothing(keeper: Still) -> None:
    place = Place()
    keeper.watch(place)  # type: ignore[arg-type]
    for second in range(60):
        keeper.turn(1000.0 + second)
    assert place.opened == 0
    assert keeper.statistics()["connections"] == 0


# Functions for the keeper's thread.


def test_one_function_that_fails_does_not_hold_up_the_next(keeper: Still) -> None:
    done: list[int] = []

    def fail() -> None:
        raise ValueError

    keeper.run_soon(fail)
    keeper.run_soon(lambda: done.append(1))
    keeper._do_requested()
    assert done == [1]


# Its own thread.


class PromptLink(Link):
    """Answers at once, as the memory store does."""

    def push_out(self, data: bytes) -> bytes:
        self.incoming.append(1)
        return b""


def test_what_its_own_turn_puts_on_a_lane_is_not_slept_through() -> None:
    """A place that answers at once puts a charge back on its lane after the keeper has computed its sleep."""
    place = Place()
    place.in_process = True
    place.opening = PromptLink
    often = threading.Event()

    class Counting(Charge):
        def request(self, now: float) -> bytes | None:
            if asked(self) == 10:
                often.set()
                self.alive = False
            return super().request(now)

    keeper = Keeper()
    keeper.add(Counting(place, interval=0.01), keeper.clock())
    assert often.wait(2), "it came back only when something else woke it, at the latest after 2.5 s"
    keeper.forget(place)  # type: ignore[arg-type]


def test_a_deadline_in_months_is_slept_towards(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper()
    turned = threading.Event()
    keeper.at(keeper.clock() + 60 * 24 * 3600, lambda now: None)
    keeper.run_soon(lambda: keeper.at(keeper.clock() + 0.05, lambda now: turned.set()))
    assert turned.wait(10)
    slept = threading.Event()
    keeper.run_soon(slept.set)  # runs in a later turn, after a sleep
    assert slept.wait(10)
    told = threading.Event()
    tell(told.set)  # after everything that it has to report
    assert told.wait(10)
    assert not caplog.records
