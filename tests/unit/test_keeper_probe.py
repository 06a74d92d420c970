"""The keeper asks a silent server of a cluster for a sign of life while leases are kept there."""

from __future__ import annotations

from holdtight.keeper.charges import SILENCE
from tests.unit.keeping import Charge, Place, Still, due, sent


def test_a_silent_server_is_asked_something_while_a_lease_is_kept_there(keeper: Still) -> None:
    """Otherwise a holder learns at its next renewal that the server hangs, or is a replica now."""
    place = Place()
    place.client.known = False
    place.probe_seconds = 0.5
    charge = Charge(place, interval=30)
    due(keeper, charge)
    keeper.connected(place)
    keeper.hears(place, 1)
    keeper.turn(keeper.now + 0.4)
    assert sent(place) == [b"x"], "it has answered a moment ago"
    for _ in range(3):
        keeper.turn(keeper.now + 0.6)
        keeper.turn()
    assert sent(place) == [b"x", b"probe x"], "one question at a time"
    keeper.hears(place, 1)
    keeper.turn(keeper.now + 0.6)
    keeper.turn()
    assert sent(place) == [b"x", b"probe x", b"probe x"]
    keeper.hears(place, 1)
    keeper.drop(charge)
    charge.alive = False
    keeper.turn(keeper.now + 0.6)
    keeper.turn()
    assert sent(place) == [b"x", b"probe x", b"probe x"], "nothing is kept there any more"


def test_a_server_that_does_not_answer_the_question_is_in_doubt(keeper: Still) -> None:
    place = Place()
    place.client.known = False
    place.probe_seconds = 0.5
    due(keeper, Charge(place, interval=30))
    first = keeper.connected(place)
    keeper.hears(place, 1)
    keeper.turn(keeper.now + 0.6)
    keeper.turn()
    keeper.turn(keeper.now + SILENCE + 0.1)
    assert first.closed
