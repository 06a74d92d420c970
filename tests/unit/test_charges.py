"""The keeper's other charges: deferred undos, and a check of locks that were handed on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hiredis
import pytest

from holdtight.base.plan import LinkDown, Step
from holdtight.base.values import MORE_TO_SWEEP, Claim
from holdtight.keeper.charges import CLAIM_SECONDS, DeferredUndo, look_after
from tests.unit.keeping import Place, Still


class Undo(Step):
    __slots__ = ("persistence", "until")


@pytest.fixture
def now() -> list[float]:
    return [100.0]


def deferred_undo(
    now: list[float], cls: type[Any] = Step, *, ttl: float = 0.0, for_a_ttl: bool = False, **settings: float
) -> DeferredUndo:
    step = cls(b"words", None, lambda reply, sent: reply, patience=1.0, undo=True)
    for name, value in settings.items():
        setattr(step, name, value)
    place: Any = SimpleNamespace(clock=lambda: now[0], undoes_for_a_ttl=for_a_ttl)
    return DeferredUndo(place, step, ttl)


def test_one_answer_ends_it(now: list[float]) -> None:
    undo = deferred_undo(now)
    assert undo.deadline == 105.0
    assert undo.answered(hiredis.ReplyError("LOADING"), 100.0) is False
    assert undo.alive
    assert undo.answered(0, 100.0) is True
    assert not undo.alive


def test_what_may_still_arrive_is_undone_until_it_cannot(now: list[float]) -> None:
    undo = deferred_undo(now, Undo, persistence=30.0, until=103.0)
    assert undo.deadline == 133.0
    assert undo.answered(0, 100.0) is True
    assert undo.alive, "asked again after its interval"
    now[0] = 103.0
    assert undo.answered(0, 103.0) is True
    assert not undo.alive


@pytest.mark.parametrize(("for_a_ttl", "ends"), [(False, 105.0), (True, 190.0)])
def test_it_is_tried_for_the_ttl_where_the_server_of_a_name_may_be_unknown_for_long(
    now: list[float], for_a_ttl: bool, ends: float
) -> None:
    assert deferred_undo(now, ttl=90.0, for_a_ttl=for_a_ttl).deadline == ends


# Locks that were handed on.


class Name:
    claim = Claim("a", 1.0, None)

    def sweep_step(self, owner: bytes) -> Step:
        return Step(b"sweep for %b\n" % owner, None, lambda reply, sent: reply, patience=1.0)

    def read_release(self, reply: Any) -> Any:
        return MORE_TO_SWEEP if reply == b"more" else reply


class World:
    """A keeper without a thread, and a place where names are handed on."""

    def __init__(self) -> None:
        self.keeper = Still()
        self.place: Any = Place()
        self.place.runtime = SimpleNamespace(keeper=self.keeper)

    def hand_on(self, owner: bytes = b"alice") -> None:
        look_after(self.place, Name(), owner, self.keeper.now)

    def pass_time(self, seconds: float) -> None:
        self.keeper.turn(self.keeper.now + seconds)
        self.keeper.turn()  # runs what the first has requested

    def looks(self) -> list[bytes]:
        return [request for link in self.place.links for write in link.writes for request in write]


@pytest.fixture
def world() -> World:
    return World()


def test_what_was_handed_on_is_looked_at_when_the_claim_has_lapsed(world: World) -> None:
    world.hand_on()
    world.pass_time(CLAIM_SECONDS * 0.9)
    assert world.place.opened == 0
    world.pass_time(CLAIM_SECONDS * 0.2)
    world.keeper.connected(world.place)
    assert world.looks() == [b"sweep for alice"]
    world.keeper.hears(world.place, 1)
    assert world.place.handed_on == {}
    world.pass_time(10)
    assert world.looks() == [b"sweep for alice"]


def test_what_is_handed_on_all_the_time_is_looked_at_when_that_ends(world: World) -> None:
    for number in range(1000):
        world.hand_on(b"owner %d" % number)
        world.pass_time(0.01)
    assert world.place.opened == 0
    assert len(world.keeper.agenda) == 1
    assert world.keeper.wakes < 50, "not for every one of them"
    world.pass_time(CLAIM_SECONDS)
    world.keeper.connected(world.place)
    assert len(world.looks()) == 1


def test_what_is_handed_on_while_the_look_is_under_way_is_looked_at_too(world: World) -> None:
    world.hand_on()
    world.pass_time(CLAIM_SECONDS)
    world.keeper.connected(world.place)
    world.keeper.now += 0.1
    world.hand_on(b"bob")
    world.keeper.hears(world.place, 1)
    world.pass_time(CLAIM_SECONDS)
    assert len(world.looks()) == 2


def test_as_long_as_dead_waiters_are_left_it_looks_again_soon(world: World) -> None:
    world.hand_on()
    world.pass_time(CLAIM_SECONDS)
    world.keeper.connected(world.place)
    world.keeper.hears(world.place, b"more")
    world.pass_time(CLAIM_SECONDS / 2)
    assert len(world.looks()) == 2
    world.keeper.hears(world.place, 1)
    world.pass_time(CLAIM_SECONDS)
    assert len(world.looks()) == 2


def test_a_server_that_cannot_be_reached_is_not_asked_for_ever(world: World) -> None:
    def refuse() -> Any:
        raise LinkDown("nobody there", sent=False)

    world.place.opening = refuse
    world.hand_on()
    world.pass_time(CLAIM_SECONDS)
    assert world.keeper._requests.acquire(timeout=10)
    world.keeper._requests.release()
    world.pass_time(0)
    assert world.place.handed_on == {}
    world.pass_time(60)
    assert world.place.opened == 1


def test_after_the_client_was_closed_nothing_is_looked_at(world: World) -> None:
    world.hand_on()
    world.keeper.forget(world.place)
    world.pass_time(CLAIM_SECONDS)
    assert world.place.opened == 0
