"""The keeper's connection to one server: how many charges go out at once, and how long it works in one go."""

from __future__ import annotations

from holdtight.keeper import SLICE
from holdtight.station import BATCH, UNDER_WAY
from tests.unit.keeping import Charge, Place, Still, due, sent


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
        waiting = len(keeper._stations[place]._waiting)  # type: ignore[index]
        under_way = len(keeper._stations[place]._sent)  # type: ignore[index]
        assert under_way <= UNDER_WAY
        keeper.hears(place, *[1] * under_way)
        keeper.turn()
        now_seen = sum(len(each.log) for each in charges)
        assert now_seen - seen <= 2 * UNDER_WAY, "what was answered, and what was asked instead"
        assert len(keeper._stations[place]._waiting) - waiting <= SLICE  # type: ignore[index]
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
