"""The detector, branch by branch: when it searches, what it asks, what it accepts as a circle."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from holdtight.base.plan import Bell, Park, Step
from holdtight.base.values import Wait, owner_text
from holdtight.core import deadlock
from holdtight.core.deadlock import Watch
from holdtight.stores.redis.wait_records import PUBLISHED_MS
from tests.plans.detecting import Graph, Scene, owner
from tests.plans.scripted import LOADING, OWNER, SENT, Named, Run

# When it looks.


def test_it_looks_once_it_has_waited_so_long_and_then_again_and_again() -> None:
    scene = Scene(after=2.0)
    assert scene.run.sleeps().until == 1002.0
    for runs in range(1, 4):
        scene.look()
        assert scene.tally.runs == runs
        assert 1.5 <= scene.run.sleeps().until - scene.clock() <= 2.5
    assert scene.run.all("attempt") == [], "a run that finds nothing sends no attempt"


@pytest.mark.parametrize(("after", "least", "most"), [(0.0, 0.15, 0.25), (3600.0, 2.25, 3.75)])
def test_pauses_between_runs_are_neither_too_short_nor_longer_than_a_publication_lives(
    after: float, least: float, most: float
) -> None:
    scene = Scene(after=after)
    run = Run(scene.watch.run(lambda inbox: inbox, float("inf")), scene.clock)
    while not run.done:
        run.answer(scene.graph.answer(run.wish) if isinstance(run.wish, Named) else None)
    assert run.result == float("inf"), "no bell, no moment to look"
    assert least <= scene.watch.due - scene.clock() <= most
    assert most < PUBLISHED_MS / 1000


def test_a_waiter_that_holds_nothing_any_more_asks_nothing() -> None:
    scene = Scene()
    scene.held.clear()
    scene.until_next_run()
    assert scene.run.sleeps().until > scene.clock()
    assert scene.graph.asked == []
    assert scene.tally.runs == 0


def test_a_wait_that_is_shorter_never_looks() -> None:
    scene = Scene(after=1.0, wait=1.0)
    assert scene.run.sleeps().until == 1001.0
    scene.run.until_due()
    scene.run.asks("withdraw")
    assert scene.graph.asked == []


def test_a_moment_to_look_that_comes_first_is_attended_to_first() -> None:
    scene = Scene()
    scene.run.answer(Bell(0.5))
    scene.run.until_due()
    scene.run.asks("attempt")
    assert scene.graph.asked == []


# What it asks.


def test_it_publishes_for_each_lock_in_hand_before_it_looks() -> None:
    scene = Scene(held=("mine", "other"))
    scene.look()
    assert [step.verb for step in scene.graph.asked] == ["publish", "publish", "blockers", "published"]
    for held in ("mine", "other"):
        assert scene.graph.published[owner(held)] == Wait(OWNER, "orders", "thread main", "billing")


def test_with_very_many_locks_in_hand_it_publishes_for_the_last_and_looks_for_all() -> None:
    scene = Scene(held=("mine", *(f"g{number}" for number in range(200))))
    scene.close_the_circle()
    scene.look()
    assert scene.error().cycle == ("a", "orders", "a")
    published = [step.owner for step in scene.graph.asked if step.verb == "publish"]
    assert published == [owner(f"g{number}") for number in range(200 - deadlock.MOST_PUBLISHED, 200)]


def test_a_holder_that_waits_for_nothing_ends_the_search() -> None:
    scene = Scene()
    scene.look()
    assert isinstance(scene.run.wish, Park)
    assert (scene.tally.runs, scene.tally.found) == (1, 0)


def test_a_publication_whose_waiter_is_not_in_line_ends_the_search() -> None:
    """The note has outlived its wait."""
    scene = Scene()
    scene.close_the_circle()
    scene.graph.line.remove(("a", owner("1")))
    scene.look()
    assert isinstance(scene.run.wish, Park)
    assert scene.graph.count("blockers") == 2


def test_a_caller_that_is_not_in_line_itself_finds_nothing() -> None:
    scene = Scene()
    scene.close_the_circle()
    scene.graph.line.remove(("orders", OWNER))
    scene.look()
    assert scene.graph.count("published") == 0
    assert isinstance(scene.run.wish, Park)


def test_a_cycle_of_others_is_theirs() -> None:
    """We wait for a lock that one of them holds, and are no member."""
    scene = Scene()
    scene.graph.waits("b", "1", "c")
    scene.graph.holders["c"] = (owner("c"),)
    scene.graph.waits("c", "2", "orders")
    scene.look()
    assert isinstance(scene.run.wish, Park)
    assert scene.graph.count("blockers") == 3


def chain_of(length: int) -> Scene:
    """That many owners each hold a lock and wait for the next one's."""
    scene = Scene()
    scene.graph.holders["orders"] = (owner("g0"),)
    for at in range(length):
        scene.graph.waits(f"g{at}", f"1w{at}", f"n{at}")
        scene.graph.holders[f"n{at}"] = (owner(f"g{at + 1}"),)
    return scene


def test_a_chain_longer_than_the_limit_is_given_up() -> None:
    scene = chain_of(200)
    scene.look()
    assert isinstance(scene.run.wish, Park)
    assert len(scene.graph.asked) <= deadlock.MOST_REQUESTS + 2


def test_sixty_members_are_within_the_limit() -> None:
    scene = chain_of(59)
    scene.graph.holders["n58"] = (owner("mine"),)
    scene.look()
    assert len(scene.error().members) == 60


# What it believes.


def test_a_cycle_is_read_twice_and_then_believed() -> None:
    scene = Scene()
    scene.close_the_circle()
    scene.look()
    error = scene.error()
    asked = [step.verb for step in scene.graph.asked]
    reading = ["blockers", "published", "blockers"]
    assert asked == ["publish", *reading, *reading, "records", "retract"]
    assert error.cycle == ("a", "orders", "a")
    assert scene.tally.found == 1


def test_the_error_names_every_member_and_what_it_holds_and_waits_for() -> None:
    scene = Scene()
    scene.close_the_circle()
    scene.clock.now += 0.25
    scene.look()
    error = scene.error()
    me, other = error.members
    assert (me.holds, me.waits_for, me.owner, me.waiter) == (
        "a",
        "orders",
        owner_text(owner("mine")),
        owner_text(OWNER),
    )
    assert str(me) == "worker-7, pid 42, thread main (billing) holds 'a' and waits for 'orders'"
    assert str(other).endswith(", task t holds 'orders' and waits for 'a'")
    assert error.holder is not None
    assert error.holder.owner == owner_text(owner("b"))
    assert error.name == "orders"
    assert error.waited == pytest.approx(1.0)
    lines = str(error).splitlines()
    assert lines[1].startswith("  worker-7, pid 42")
    assert "this one" in lines[1]
    for word in ("same order", "multi", "reentrant"):
        assert word in lines[-1]


@pytest.mark.parametrize("failure", [SENT, LOADING])
def test_members_that_cannot_be_named_do_not_hide_the_deadlock(failure: Exception) -> None:
    scene = Scene()
    scene.close_the_circle()
    scene.until_next_run()
    while not isinstance(scene.run.wish, Named) or scene.run.wish.verb != "records":
        scene.run.answer(scene.graph.answer(scene.run.wish) if isinstance(scene.run.wish, Named) else None)
    scene.run.answer(failure)
    assert "owner" in str(scene.error())


def nobody_reads_twice(watch: Watch, cycle: deadlock.Cycle) -> Generator[Step | Park, Any, bool]:
    yield from ()
    return True


@pytest.mark.parametrize("reads", [2, 1], ids=["read twice", "read once"])
def test_edges_of_different_moments_are_no_cycle(monkeypatch: pytest.MonkeyPatch, reads: int) -> None:
    """b waits for c, gives up, and lets us have "orders"; only then the owner of c begins to wait for us. There was
    never a circle, but a detector that reads the edges one after the other sees one. Reading once is not enough."""
    scene = Scene()
    scene.graph.waits("b", "1", "c")
    scene.graph.holders["c"] = (owner("c"),)
    if reads == 1:
        monkeypatch.setattr(Watch, "_is_still_there", nobody_reads_twice)

    def meanwhile(step: Named) -> None:
        if step.verb == "published" and step.owner == owner("c") and ("c", owner("1")) in scene.graph.line:
            scene.graph.line.remove(("c", owner("1")))
            scene.graph.holders["orders"] = (OWNER,)
            scene.graph.waits("c", "2", "a")

    scene.until_next_run()
    scene.finish_run(meanwhile)
    if reads == 1:
        assert scene.error().cycle == ("a", "orders", "c", "a"), "the false alarm that the second reading prevents"
    else:
        assert isinstance(scene.run.wish, Park)
        assert (scene.tally.runs, scene.tally.found) == (1, 0)


CHANGES: dict[str, Callable[[Graph], object]] = {
    "we have been handed the lock": lambda graph: graph.holders.update(orders=(OWNER,)),
    "the holder has changed": lambda graph: graph.holders.update(orders=(owner("d"),)),
    "the other waits no more": lambda graph: graph.line.discard(("a", owner("1"))),
    "the other waits for something else": lambda graph: graph.waits("b", "3", "z"),
    "the other waits anew for the same": lambda graph: graph.waits("b", "3", "a"),
    "we hold it no more": lambda graph: graph.holders.update(a=(owner("d"),)),
    "the other's publication is gone": lambda graph: graph.published.pop(owner("b"), None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_between_the_readings_is_no_cycle(change: str) -> None:
    scene = Scene()
    scene.close_the_circle()
    blockers = 0

    def meanwhile(step: Named) -> None:
        nonlocal blockers
        blockers += step.verb == "blockers"
        if blockers == 3:
            CHANGES[change](scene.graph)

    scene.until_next_run()
    scene.finish_run(meanwhile)
    assert blockers >= 3
    assert isinstance(scene.run.wish, Park)
    assert (scene.tally.runs, scene.tally.dismissed, scene.tally.found) == (1, 1, 0)


# Several owners block one waiter.


def test_a_cycle_through_any_of_several_holders_is_one() -> None:
    """A writer waits for all readers."""
    scene = Scene()
    scene.graph.holders["orders"] = (owner("r1"), owner("b"), owner("r2"))
    scene.close_the_circle()
    scene.graph.waits("r1", "2", "elsewhere")
    scene.look()
    assert scene.error().cycle == ("a", "orders", "a")


def test_the_shortest_of_several_cycles_is_told() -> None:
    scene = Scene()
    scene.graph.holders["orders"] = (owner("far"), owner("b"))
    scene.graph.waits("far", "2", "c")
    scene.graph.holders["c"] = (owner("c"),)
    scene.graph.waits("c", "3", "a")
    scene.close_the_circle()
    scene.look()
    assert scene.error().cycle == ("a", "orders", "a")


def test_waiting_for_a_name_that_the_waiter_itself_holds_is_a_cycle_of_one() -> None:
    """By another client, or as a reader that wants to write."""
    scene = Scene()
    scene.graph.holders["orders"] = (owner("mine"),)
    scene.look()
    error = scene.error()
    assert error.cycle == ("orders", "orders")
    assert len(error.members) == 1
