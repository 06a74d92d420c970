"""A scripted world for the detector: holders, waiters, what is published; and one waiter in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdtight.base.plan import Step
from holdtight.base.values import Owner, Queued, Wait
from holdtight.core.contend import Granted
from holdtight.core.deadlock import Tally, Watch
from holdtight.errors import DeadlockDetected
from tests.plans.scripted import HOLDER, OWNER, Clock, Named, Run, ask

QUEUED = Queued(HOLDER, left=30.0, position=1, look=30.0)
ASIDE = ("publish", "published", "blockers")


def owner(name: str) -> Owner:
    return name.encode().ljust(24, b".")


class Graph:
    """Holders, waiters and what is published: all that a detector can ask about, and its ledger."""

    def __init__(self) -> None:
        self.holders: dict[str, tuple[Owner, ...]] = {}
        self.line: set[tuple[str, Owner]] = set()
        self.published: dict[Owner, Wait] = {}
        self.asked: list[Named] = []

    def waits(self, holder: str, waiter: str, name: str, *, who: str = "") -> None:
        """The owner of a grant waits, and has published that."""
        self.line.add((name, owner(waiter)))
        self.published[owner(holder)] = Wait(owner(waiter), name, who)

    def answer(self, step: Named) -> Any:
        self.asked.append(step)
        match step.verb:
            case "publish":
                self.published[step.owner] = step.details["wait"]
                return None
            case "retract":
                found = self.published.get(step.owner)
                if found is not None and found.waiter == step.details["waiter"]:
                    del self.published[step.owner]
                return None
            case "published":
                return self.published.get(step.owner)
            case "blockers":
                name = step.details["name"]
                return self.holders.get(name, ()) if (name, step.owner) in self.line else ()
            case "records":
                known = {"host": "worker-7", "pid": 42}
                return [{} if each == owner("b") else known for each in step.details["owners"]]
            case verb:
                raise AssertionError(f"nobody expected {verb}")

    def count(self, verb: str) -> int:
        return sum(each.verb == verb for each in self.asked)

    # The ledger

    def publish_step(self, holder: Owner, wait: Wait) -> Step:
        return Named("publish", holder, wait=wait)

    def retract_step(self, holder: Owner, waiter: Owner) -> Step:
        return Named("retract", holder, undo=True, waiter=waiter)

    def published_step(self, holder: Owner) -> Step:
        return Named("published", holder)

    def blockers_step(self, name: str, waiter: Owner) -> Step:
        return Named("blockers", waiter, name=name)

    def records_step(self, owners: list[Owner]) -> Step:
        return Named("records", b"", owners=owners)


class Scene:
    """A waiter that holds "a" (as grant "mine") and waits for "orders", which another (grant "b") holds."""

    def __init__(self, *, held: tuple[str, ...] = ("mine",), after: float = 1.0, wait: float | None = None) -> None:
        self.graph = Graph()
        self.graph.holders = {"orders": (owner("b"),), "a": (owner("mine"),)}
        self.graph.line.add(("orders", OWNER))
        self.tally = Tally()
        self.clock = Clock()
        self.held = [owner(each) for each in held]
        self.watch = Watch(
            self.graph,
            Wait(OWNER, "orders", "thread main", "billing"),
            lambda: self.held,
            started=self.clock(),
            after=after,
            clock=self.clock,
            tally=self.tally,
        )
        self.run: Run[Granted | None] = ask(QUEUED, wait=wait, clock=self.clock, watch=self.watch)

    def close_the_circle(self, waiter: str = "1") -> None:
        """The owner of b waits for "a". By default it is not the victim: its waiter is lower than ours."""
        self.graph.waits("b", waiter, "a", who="task t")

    def until_next_run(self) -> None:
        self.run.until_due()

    def finish_run(self, meanwhile: Callable[[Named], object] = lambda step: None) -> None:
        """Answers from the graph until the waiter is parked again, or done; `meanwhile` runs before each answer."""
        while isinstance(self.run.wish, Named) and self.run.wish.verb in (*ASIDE, "retract", "records"):
            step = self.run.wish
            meanwhile(step)
            self.run.answer(self.graph.answer(step))
            if step.verb in ASIDE:
                assert self.run.sleeps().until == self.clock(), "after each answer it asks whether a bell has rung"
                self.run.answer(None)

    def look(self) -> None:
        self.until_next_run()
        self.finish_run()

    def error(self) -> DeadlockDetected:
        """After the undo."""
        self.run.asks("withdraw")
        self.run.answer(1)
        self.finish_run()
        assert isinstance(self.run.error, DeadlockDetected), self.run.error or self.run.wish
        return self.run.error
