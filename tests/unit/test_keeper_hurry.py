"""The keeper renews all leases of a server at once when the server was replaced, or when it had to connect again."""

from __future__ import annotations

import hiredis

from holdtight.base.plan import LinkDown
from tests.unit.keeping import Charge, Place, Still, asked, due, sent

BROKEN = LinkDown("reset", sent=True)


def kept(keeper: Still, place: Place, count: int = 3) -> list[Charge]:
    """Charges that have been renewed once and wait on their lane."""
    charges = [Charge(place, name=f"{number}") for number in range(count)]
    due(keeper, *charges)
    keeper.connected(place)
    keeper.hears(place, *[1] * count)
    assert not [charge for charge in charges if charge.log != ["request", "answered 1"]]
    return charges


def test_a_keeper_that_had_to_connect_anew_renews_all_leases_of_that_server_at_once(keeper: Still) -> None:
    place, other = Place(), Place("b")
    kept(keeper, place)
    kept(keeper, other)
    place.link.broken = BROKEN
    due(keeper, Charge(place, interval=1.0, name="due"))
    keeper.turn(keeper.now + 1)  # the pause after the failure is over
    keeper.connected(place)
    keeper.turn()
    assert {b"0", b"1", b"2", b"due"} <= set(sent(place))
    assert len(other.links) == 1
    assert len(sent(other)) == 3


def test_a_connection_that_ends_while_leases_are_kept_is_made_again_at_once(keeper: Still) -> None:
    place = Place()
    charges = kept(keeper, place)
    place.link.broken = BROKEN
    keeper.hears(place)
    keeper.turn()
    keeper.connected(place)
    keeper.turn()
    assert [charge.log[2:] for charge in charges] == [["request"]] * 3


def test_a_connection_that_ends_while_nothing_is_kept_stays_closed(keeper: Still) -> None:
    place = Place()
    for charge in kept(keeper, place):
        keeper.drop(charge)
    place.link.broken = BROKEN
    keeper.hears(place)
    keeper.turn(keeper.now + 1)
    assert place.opened == 1


def test_the_first_connection_renews_nothing_early(keeper: Still) -> None:
    place = Place()
    keeper.add(Charge(place, interval=100.0, name="later"), keeper.now)
    due(keeper, Charge(place, name="now"))
    keeper.connected(place)
    keeper.turn()
    assert sent(place) == [b"now"]


def test_a_server_that_was_replaced_is_asked_about_everything_at_once(keeper: Still) -> None:
    place, other = Place(), Place("b")
    charges = kept(keeper, place)
    kept(keeper, other)
    keeper.hurry(place)  # type: ignore[arg-type]
    keeper.turn()
    assert [charge.log for charge in charges] == [["request", "answered 1", "request"]] * 3
    assert len(sent(other)) == 3
    keeper.hears(place, 1, 1, 1)
    assert keeper.statistics()["away"] == 0


def test_a_connection_that_ends_while_all_leases_are_asked_about_is_made_again_at_once(keeper: Still) -> None:
    place = Place()
    charges = kept(keeper, place)
    keeper.hurry(place)  # type: ignore[arg-type]
    keeper.turn()
    place.link.broken = BROKEN
    keeper.hears(place)
    keeper.turn()
    keeper.connected(place)
    keeper.turn()
    assert [charge.log[2:] for charge in charges] == [["request", "unanswered reset", "request"]] * 3


def test_nothing_is_sent_on_a_connection_that_was_cut_before_the_hurry(keeper: Still) -> None:
    place = Place()
    charges = kept(keeper, place)
    place.link.broken = BROKEN
    keeper.hurry(place)  # type: ignore[arg-type]
    keeper.turn()
    keeper.connected(place)
    keeper.turn()
    assert [charge.log[2:] for charge in charges] == [["request"]] * 3


def test_what_waits_for_a_server_that_has_nothing_any_more_goes_where_it_belongs_now(keeper: Still) -> None:
    old, new = Place(), Place("b")
    charges = [Charge(old, name=f"{number}") for number in range(3)]
    due(keeper, *charges)  # the connection is being made
    for charge in charges:
        charge.place = new
    keeper.leave(old)  # type: ignore[arg-type]
    keeper.turn()
    keeper.connected(new)
    keeper.turn()
    assert [charge.log for charge in charges] == [["request"]] * 3
    assert len(sent(new)) == 3


def test_a_charge_that_pauses_after_a_failure_is_sent_once_when_it_is_hurried(keeper: Still) -> None:
    place = Place()
    charge = Charge(place)
    due(keeper, charge)
    keeper.connected(place)
    charge.well = False
    keeper.hears(place, "not now")
    charge.well = True
    keeper.hurry(place)  # type: ignore[arg-type]
    keeper.turn()
    keeper.hears(place, 1)
    assert charge.log == ["request", "answered not now", "request", "answered 1"]
    keeper.turn(keeper.now + 5)  # when the pause would have ended
    assert charge.log[4:] == []


def test_a_server_that_became_a_replica_is_left(keeper: Still) -> None:
    place = Place()
    place.deserts_on = "READONLY"
    charge = Charge(place)
    due(keeper, charge)
    first = keeper.connected(place)
    charge.well = False
    keeper.hears(place, hiredis.ReplyError("READONLY You can't write against a read only replica."))
    assert first.closed
    keeper.turn(keeper.now + 5)
    keeper.connected(place)
    assert place.opened == 2
    assert b"x" in sent(place)


def test_a_grant_of_the_server_that_was_replaced_is_asked_about_however_late_it_comes(keeper: Still) -> None:
    """Its thread could not run for a while: the grant came to the keeper after all others had been asked about."""
    place = Place()
    place.client.known = False  # it has no record to be refreshed
    others = kept(keeper, place)
    switched = keeper.now
    keeper.turn(switched + 0.01)
    keeper.hurry_from(place, switched)  # type: ignore[arg-type]
    keeper.turn()
    keeper.hears(place, 1, 1, 1)
    for late in (0.1, 2.5, 7.2):
        straggler = Charge(place, interval=60, name=f"late {late}")
        keeper.turn(switched + late)
        keeper.add(straggler, switched - 0.01)
        keeper.turn(switched + late + 1.1)
        assert asked(straggler) == 1, late
        keeper.hears(place, 1)
    keeper.turn(switched + 9.5)
    assert not [each for each in others if asked(each) != 2], "those that are confirmed are not asked about again"


def test_a_straggler_that_is_due_before_all_others_of_its_lane_is_found_too(keeper: Still) -> None:
    place = Place()
    switched = keeper.now
    keeper.hurry_from(place, switched)  # type: ignore[arg-type]
    keeper.turn(switched + 5)
    keeper.add(Charge(place, interval=30, name="fresh"), keeper.now)
    straggler = Charge(place, interval=30, name="late")
    keeper.add(straggler, switched - 0.01)
    keeper.turn(switched + 6.5)
    keeper.connected(place)
    keeper.turn()
    assert sent(place) == [b"late"]


def test_a_server_that_was_lost_and_keeps_nothing_is_looked_at_now_and_then(keeper: Still) -> None:
    """To find nothing takes a look at every lease of the process, which must not delay other servers."""
    place, other = Place(), Place("b")
    for charge in kept(keeper, place):
        keeper.drop(charge)
    kept(keeper, other)
    looks: list[float] = []
    holds = keeper.holds
    keeper.holds = lambda place: bool(looks.append(keeper.now)) or holds(place)  # type: ignore[method-assign, func-returns-value]
    place.link.broken = BROKEN
    keeper.hears(place)
    for _ in range(100):
        until = keeper.turn(keeper.now + 0.001)
        assert until <= keeper.now + 0.3
    assert len(looks) == 1
