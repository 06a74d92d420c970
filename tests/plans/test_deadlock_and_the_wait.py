"""Which member gives up; the wait goes on, whatever the result of a run, and leaves nothing published."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight.base.plan import Bell, Elsewhere, Park, ServerSaid
from holdtight.base.values import Grant
from holdtight.core import deadlock
from holdtight.errors import LockTimeout
from tests.plans.detecting import ASIDE, QUEUED, Scene, owner
from tests.plans.scripted import LOADING, SENT, UNSENT, Named

# The victim.


def test_the_one_with_the_highest_waiter_gives_up_and_the_others_go_on_waiting() -> None:
    scene = Scene()
    scene.close_the_circle(waiter="z")
    scene.look()
    assert isinstance(scene.run.wish, Park)
    assert (scene.tally.runs, scene.tally.found) == (1, 0)
    assert scene.graph.count("records") == 0


def test_a_victim_that_does_not_act_is_stood_in_for() -> None:
    scene = Scene()
    scene.close_the_circle(waiter="z")
    scene.look()
    known = scene.clock()
    while scene.run.sleeps().until < known + deadlock.GRACE:
        scene.look()
        assert isinstance(scene.run.wish, Park)
    scene.look()
    scene.error()


def test_each_one_leaves_the_ones_before_it_their_time() -> None:
    scene = Scene()
    scene.graph.waits("b", "z", "c")
    scene.graph.holders["c"] = (owner("c"),)
    scene.graph.waits("c", "y", "a")
    scene.look()
    known = scene.clock()
    while scene.run.sleeps().until < known + 2 * deadlock.GRACE:
        scene.look()
        assert isinstance(scene.run.wish, Park)
    scene.look()
    scene.error()


def test_time_given_to_the_victim_of_one_cycle_does_not_count_for_the_next() -> None:
    scene = Scene()
    scene.close_the_circle(waiter="z")
    scene.look()
    scene.clock.now += deadlock.GRACE
    scene.close_the_circle(waiter="y")
    scene.watch.due = scene.clock()
    scene.run.answer(None)
    scene.finish_run()
    assert isinstance(scene.run.wish, Park)


# The wait goes on, whatever comes of a run.


@pytest.mark.parametrize("at", range(4))
def test_a_bell_that_rings_during_a_run_is_followed_at_once(at: int) -> None:
    scene = Scene()
    scene.close_the_circle(waiter="z")
    scene.until_next_run()
    for _ in range(at):
        assert isinstance(scene.run.wish, Named)
        scene.run.answer(scene.graph.answer(scene.run.wish)).answer(None)
    assert isinstance(scene.run.wish, Named)
    scene.run.answer(scene.graph.answer(scene.run.wish))
    scene.run.answer(Bell()).answer(None)
    assert scene.run.sleeps().until <= scene.clock(), "its time has come"
    scene.run.answer(None)
    scene.run.asks("attempt")
    assert scene.tally.runs == 0, "a run that was broken off does not count"


def test_a_note_during_a_run_lowers_the_moment_to_look() -> None:
    scene = Scene()
    scene.until_next_run()
    scene.run.answer(None)
    scene.run.answer(Bell(0.5)).answer(None)
    scene.finish_run()
    assert scene.tally.runs == 1
    assert scene.run.sleeps().until <= scene.clock() + 0.5


def test_a_run_ends_when_the_wait_ends() -> None:
    scene = Scene(wait=2.0)
    scene.close_the_circle()
    scene.until_next_run()
    scene.run.answer(None, after=1.0)
    scene.run.answer(None)
    scene.run.until_due()
    scene.run.asks("withdraw")
    scene.run.answer(1)
    scene.finish_run()
    scene.run.asks("holder")
    scene.run.answer(None)
    assert isinstance(scene.run.error, LockTimeout)


@pytest.mark.parametrize("verb", ASIDE)
def test_a_refused_request_ends_the_run_and_not_the_wait(verb: str) -> None:
    scene = Scene()
    scene.until_next_run()
    while True:
        wish = scene.run.wish
        if isinstance(wish, Named) and wish.verb == verb:
            break
        scene.run.answer(scene.graph.answer(wish) if isinstance(wish, Named) else None)
    scene.run.answer(ServerSaid("OOM command not allowed when used memory > 'maxmemory'."))
    assert scene.run.sleeps().until > scene.clock()
    assert (scene.tally.runs, scene.tally.failures) == (0, 1)
    scene.look()
    assert scene.tally.runs == 1


@pytest.mark.parametrize("failure", [SENT, UNSENT])
@pytest.mark.parametrize("parked", [False, True])
def test_a_lost_connection_makes_the_waiter_look_from_a_new_one(failure: Exception, parked: bool) -> None:
    scene = Scene()
    scene.until_next_run()
    if parked:
        scene.run.answer(None)
    scene.run.answer(failure)
    scene.run.asks("attempt")
    scene.run.answer(QUEUED)
    assert scene.run.sleeps().until > scene.clock(), "and not at once again"


@pytest.mark.parametrize("verb", ASIDE)
def test_another_server_that_does_not_answer_ends_the_run_and_not_the_wait(verb: str) -> None:
    """On a cluster. The waiter has its inbox still, and need not ask again."""
    scene = Scene()
    scene.until_next_run()
    while not (isinstance(wish := scene.run.wish, Named) and wish.verb == verb):
        scene.run.answer(scene.graph.answer(wish) if isinstance(wish, Named) else None)
    scene.run.answer(Elsewhere.because(SENT))
    assert scene.run.sleeps().until > scene.clock()
    assert scene.run.all("attempt") == []
    assert (scene.tally.runs, scene.tally.failures) == (0, 1)
    scene.look()
    assert scene.tally.runs == 1


# What was published is taken back.


def test_what_was_published_is_taken_back_when_the_lock_has_come() -> None:
    scene = Scene(held=("mine", "other"))
    scene.look()
    scene.run.answer(Bell())
    scene.run.answer(Grant(7, scene.clock()))
    scene.finish_run()
    assert scene.run.result is not None
    assert scene.graph.published == {}
    assert scene.run.all("withdraw") == []


def test_nothing_is_taken_back_that_was_never_published() -> None:
    scene = Scene()
    scene.run.answer(Bell())
    scene.run.answer(Grant(7, scene.clock()))
    assert scene.run.done
    assert scene.graph.asked == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SENT])
def test_a_publication_that_may_have_arrived_is_taken_back(stop: BaseException) -> None:
    scene = Scene()
    scene.until_next_run()
    assert isinstance(scene.run.wish, Named)
    scene.graph.answer(scene.run.wish)
    scene.run.answer(stop)
    if isinstance(stop, KeyboardInterrupt):
        scene.run.asks("withdraw")
        scene.run.answer(1)
    else:
        scene.run.asks("attempt")
        scene.run.answer(Grant(7, scene.clock()))
    scene.finish_run()
    assert scene.run.done
    assert scene.graph.published == {}


@pytest.mark.parametrize("withdrawal", [1, SENT, KeyboardInterrupt()])
def test_an_interrupted_waiter_withdraws_first_and_takes_its_note_back_then(withdrawal: Any) -> None:
    scene = Scene()
    scene.look()
    scene.run.answer(KeyboardInterrupt())
    scene.run.asks("withdraw")
    scene.run.answer(withdrawal)
    scene.run.asks("retract")
    scene.finish_run()
    assert isinstance(scene.run.error, KeyboardInterrupt)
    assert scene.graph.published == {}


def test_an_interruption_while_taking_back_gives_the_new_grant_away_again() -> None:
    scene = Scene(held=("mine", "other"))
    scene.look()
    scene.run.answer(Bell())
    scene.run.answer(Grant(7, scene.clock()))
    scene.run.asks("retract")
    scene.run.answer(KeyboardInterrupt())
    scene.run.asks("withdraw")
    scene.run.answer(1)
    scene.finish_run()
    assert isinstance(scene.run.error, KeyboardInterrupt)


@pytest.mark.parametrize("failure", [SENT, LOADING])
def test_a_note_that_cannot_be_taken_back_keeps_no_waiter_from_its_lock(failure: Exception) -> None:
    scene = Scene(held=("mine", "other"))
    scene.look()
    scene.run.answer(Bell())
    scene.run.answer(Grant(7, scene.clock()))
    for _ in range(2):
        scene.run.asks("retract")
        scene.run.answer(failure)
    assert scene.run.result is not None
