"""The client's record, which the keeper refreshes on its connection."""

from __future__ import annotations

from tests.unit.keeping import Charge, Place, Still, sent


def records(place: Place) -> list[bytes]:
    return [line for line in sent(place) if line in (b"SET", b"DEL")]


def test_the_record_is_kept_while_there_are_charges_and_expires_by_itself_after(keeper: Still) -> None:
    place = Place()
    charge = Charge(place, interval=1000.0)
    keeper.watch(place)  # type: ignore[arg-type]
    keeper.add(charge, keeper.now)
    keeper.turn()
    for _ in range(8):  # of 2.5 s
        keeper.turn(keeper.now + 2.5)
    keeper.connected(place)
    assert records(place) == [b"SET"]
    keeper.hears(place, b"OK")
    keeper.drop(charge)
    for _ in range(3):
        keeper.turn(keeper.now + 2.5)
    assert place.link.closed
    for _ in range(20):
        keeper.turn(keeper.now + 2.5)
    assert records(place) == [b"SET"], "a removal could arrive after the next record"
    assert keeper.statistics()["connections"] == 0


def test_the_record_is_refreshed_for_an_attempt_that_began_while_it_was_good(keeper: Still) -> None:
    """Such an attempt does not write the record; with a long ttl the first renewal comes after the record's end."""
    place = Place()
    charge = Charge(place, interval=1000.0)
    keeper.watch(place)  # type: ignore[arg-type]
    place.client.recorded_until = keeper.now + 40  # as the client notes when it writes the record
    while keeper.now < place.client.recorded_until:
        keeper.turn(keeper.now + 2.5)
    keeper.add(charge, keeper.now)
    keeper.turn(keeper.now + 2.5)
    keeper.connected(place)
    assert records(place) == [b"SET"]
