"""The keeper's connection to one server: how many charges go out at once, and how long it works in one go."""

from __future__ import annotations

import pytest

from holdtight.keeper.batches import BATCH
from holdtight.keeper.charges import DeferredUndo, HandedOn
from holdtight.keeper.connection import UNDER_WAY
from holdtight.keeper.keeper import SLICE
from tests.unit.keeping import Charge, Place, Still, begins, connected, due, sent


def test_ten_thousand_charges_go_out_in_batches_of_12(keeper: Still) -> None:
    place = Place()
    charges = [Charge(place, name=f"{number}") for number in range(10_000)]
    due(keeper, *charges)
    keeper.connected(place)
    answered = 0
    while answered < 10_000:
        writes = len(place.link.writes)
        batch = min(BATCH, 10_000 - answered)
        keeper.hears(place, *[1] * batch)
        answered += batch
        keeper.turn()
        assert len(place.link.writes) <= writes + 1, "one batch is answered, one is sent"
        assert all(len(each) == BATCH for each in place.link.writes[writes:-1])
    assert max(map(len, place.link.writes)) == BATCH
    assert sent(place) == [b"%d" % number for number in range(10_000)], "in order, each once"
    assert place.opened == 1


def test_one_batch_is_on_its_way_while_another_is_answered_and_no_third(keeper: Still) -> None:
    assert UNDER_WAY == 2 * BATCH
    place = Place()
    due(keeper, *[Charge(place, name=f"{number}") for number in range(3 * BATCH)])
    keeper.connected(place)
    keeper.turn()
    assert [len(each) for each in place.link.writes] == [BATCH, BATCH]
    keeper.hears(place, *[1] * (BATCH - 1))
    keeper.turn()
    assert len(sent(place)) == 2 * BATCH, "there is room for a whole batch, or none is sent"
    keeper.hears(place, 1)
    keeper.turn()
    assert len(sent(place)) == 3 * BATCH


def test_no_turn_of_the_thread_takes_asks_or_judges_more_than_a_few_charges(keeper: Still) -> None:
    """Other threads get the interpreter between its turns."""
    place = Place()
    charges = [Charge(place) for _ in range(1000)]
    due(keeper, *charges)
    keeper.connected(place)
    seen = sum(len(each.log) for each in charges)
    while any(each.log[-1:] != ["answered 1"] for each in charges):
        waiting = len(keeper._connections[place].waiting)  # type: ignore[index]
        under_way = len(keeper._connections[place]._sent)  # type: ignore[index]
        assert under_way <= UNDER_WAY
        keeper.hears(place, *[1] * under_way)
        keeper.turn()
        now_seen = sum(len(each.log) for each in charges)
        assert now_seen - seen <= 2 * UNDER_WAY, "what was answered, and what was asked instead"
        assert len(keeper._connections[place].waiting) - waiting <= SLICE  # type: ignore[index]
        seen = now_seen


def test_a_batch_that_is_not_answered_is_given_up_although_a_later_one_is_young(keeper: Still) -> None:
    place = Place()
    due(keeper, *[Charge(place, interval=10.0) for _ in range(BATCH)])
    link = keeper.connected(place)
    keeper.now += 1.5
    due(keeper, *[Charge(place, interval=10.0) for _ in range(BATCH)])
    assert len(link.writes) == 2
    assert keeper.turn() == 1002.0, "two seconds after the first was sent"
    keeper.hears(place, *[1] * BATCH)
    assert keeper.turn() >= 1002.5, "the second has its own two seconds; only the record is looked at before"
    keeper.turn(1003.4)
    assert not link.closed
    keeper.turn(1003.5)
    assert link.closed


def test_a_server_that_answers_earlier_batches_is_not_silent_about_later_ones(keeper: Still) -> None:
    place = Place()
    due(keeper, *[Charge(place, interval=10.0) for _ in range(BATCH)])
    link = keeper.connected(place)
    due(keeper, *[Charge(place, interval=0.5) for _ in range(BATCH)])
    assert len(link.writes) == 2
    for moment in (1000.4, 1000.8, 1001.2):  # replies come, and the second batch is behind them
        keeper.now = moment
        keeper.hears(place, *[1] * 3)
        keeper.turn()
    assert not link.closed
    keeper.turn(1001.8)
    assert link.closed, "half a second without an answer"


def test_an_undo_and_a_check_after_a_hand_over_make_the_connection_no_less_patient(keeper: Still) -> None:
    """Otherwise a short pause of the server would make all leases on the connection Unknown, and all would be renewed
    again."""

    class Undo(Charge, DeferredUndo): ...

    class Check(Charge, HandedOn): ...

    place = Place()
    due(keeper, *(kind(place, interval=0.4) for kind in (Undo, Check)), Charge(place, interval=10.0))
    link = keeper.connected(place)
    assert sum(map(len, link.writes)) == 3
    keeper.turn(1001.9)
    assert not link.closed
    keeper.turn(1002.0)
    assert link.closed


# A request counts from when it is made: the server refuses one that comes more than two seconds later.


class Dated(Charge):
    """Notes the moment that its latest request counts from. Making the first one may take long."""

    since = 0.0
    takes = 0.0

    def request(self, now: float) -> bytes | None:
        self.since = now
        self.keeper.now += self.takes
        self.takes = 0.0
        return super().request(now)

    def __init__(self, place: Place, keeper: Still) -> None:
        super().__init__(place)
        self.keeper = keeper


def test_requests_count_from_when_they_are_made_and_not_from_when_the_turn_began(keeper: Still) -> None:
    """The turn began with other work that took long, or in which the process was stopped."""
    place = Place()
    connected(keeper, place)
    charge = Dated(place, keeper)
    keeper.add(charge, keeper.now - charge.interval)

    def take_long(now: float) -> None:
        keeper.now += 3.0

    keeper.at(keeper.now, take_long)
    keeper.turn()
    assert charge.since == keeper.now


@pytest.mark.parametrize("at", [0, 5, BATCH + 5, 199])
def test_requests_that_were_made_before_the_process_was_stopped_are_made_again(keeper: Still, at: int) -> None:
    place = Place()
    connected(keeper, place)
    charges = [Dated(place, keeper) for _ in range(200)]
    charges[at].takes = 4.0
    for charge in charges:
        keeper.add(charge, keeper.now - charge.interval)
    begins(keeper)
    keeper.turn(keeper.now + 4)
    assert sent(place).count(b"x") == 200
    assert {charge.since for charge in charges} == {keeper.now}


def test_a_keeper_that_makes_requests_slowly_sends_what_it_has(keeper: Still) -> None:
    place = Place()
    link = connected(keeper, place)
    charges = [Dated(place, keeper) for _ in range(200)]
    for charge in charges:
        charge.takes = 0.02
        keeper.add(charge, keeper.now - charge.interval)
    begins(keeper)
    keeper.turn(keeper.now + 4)
    assert BATCH < len(link.writes[0]) < 100
    first = [charge for charge in charges if charge.since][: len(link.writes[0])]
    assert all(keeper.now - charge.since < 2.0 for charge in first)


class Gil:
    """Others take the interpreter after 5 ms of work, and at each write, for `wait` seconds."""

    def __init__(self, keeper: Still, wait: float) -> None:
        self.keeper, self.wait, self.worked = keeper, wait, 0.0

    def work(self, seconds: float) -> None:
        self.keeper.now += seconds
        self.worked += seconds
        if self.worked > 0.005:
            self.let_go()

    def let_go(self) -> None:
        self.keeper.now += self.wait
        self.worked = 0.0


class Costly(Charge):
    gil: Gil
    since = 0.0

    def request(self, now: float) -> bytes | None:
        self.since = now
        self.gil.work(8e-6)
        return super().request(now)


@pytest.mark.parametrize("wait", [0.5, 0.9, 1.05, 1.5])
def test_a_keeper_that_waits_a_second_for_each_turn_at_the_gil_sends_something_all_the_same(
    keeper: Still, wait: float
) -> None:
    """With the largest batches, the first requests are a second old before the last one is made."""
    place, gil = Place(), Gil(keeper, wait)
    link = connected(keeper, place)
    charges = [Costly(place, interval=1000.0, name=f"c{number}") for number in range(6000)]
    for charge in charges:
        charge.gil = gil
        keeper.add(charge, keeper.now - 3000.0)
    send, ages = link.push_out, list[float]()

    def push_out(data: bytes) -> bytes:
        told = (line for line in data.splitlines() if line.startswith(b"c"))
        ages.extend(keeper.now - charges[int(line[1:])].since for line in told)
        gil.let_go()
        return send(data)

    link.push_out = push_out  # type: ignore[method-assign]
    began = keeper.now
    while len(ages) < 6000:
        keeper.turn()
        keeper.hears(place, *[1] * len(keeper._connections[place]._sent))  # type: ignore[index]
        assert keeper.now - began < 200, f"{len(ages)} were sent"
    assert [line for line in sent(place) if line.startswith(b"c")] == [b"c%d" % number for number in range(6000)]
    assert max(ages) < 1.6, "in time for the arrival limit"
