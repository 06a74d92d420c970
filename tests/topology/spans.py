"""How long failovers and moves keep clients waiting, measured under load, beside what the contract promises."""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias

from holdtight import LockError
from holdtight.base.clock import boottime
from tests.faults.clients import COLOURS, Client, open_client, start
from tests.support.busy import Delay
from tests.support.processes import wait_for
from tests.topology.load import Kept, Load

__all__ = ["LIMITS", "Change", "Meanwhile", "Spans", "changed"]

Meanwhile: TypeAlias = Callable[[], object]
"""A fault calls it once the old server grants nothing more."""

LIMITS = {"granted": 1.0, "renewed": 1.0, "told": 1.0, "left": 1.0, "served": 0.5}
"""Seconds that the contract allows: until a free name is granted to callers that asked before and to callers that ask
now; until all surviving leases are renewed; until all lost ones are told; until nobody of ours is at the old master;
until a slot that was moved serves its waiters."""
PATIENCE = 40.0


@dataclass
class Change:
    """What a fault has done. `asked` is a time before any client can have heard of it, `since` when another server was
    named."""

    asked: float
    since: float
    left: Callable[[], bool] | None = None
    """Whether none of our connections is left at the old master, if that can be asked."""
    moved: str | None = None
    """The name whose slot was moved, of those that the load takes."""


def changed(named: Callable[[], bool], begins: Callable[[], bool] | None = None) -> Change:
    """Waits until another server is named. A new master may take writes before that: from when `begins` is true."""
    end, asked, looked = boottime() + PATIENCE, boottime(), boottime()
    while not (begins or named)():
        assert boottime() < end, "no other server takes over"
        asked = looked  # a client may hear of it while the servers are being asked here
        time.sleep(0.01)
        looked = boottime()
    wait_for(named, what="another server to be named")
    return Change(asked, boottime())


def granted_at(client: Client, name: str) -> float:
    lease = client.acquire(name, wait=60)
    at = boottime()
    with suppress(LockError):
        client.release(lease)
    return at


class Spans:
    """Runs the load, and clients of both colours that ask for free names."""

    def __init__(self, load: Load, url: str, pids: Callable[[], list[int]]) -> None:
        self.load, self._url, self._pids = load, url, pids
        self._stack = ExitStack()
        self._clients: list[Client] = []
        self.found: dict[str, list[float]] = defaultdict(list)
        self._late: list[str] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.load)
            for colour in COLOURS:
                client = open_client(colour, self._url, ttl=30, connect_timeout=PATIENCE)
                self._clients.append(stack.enter_context(closing(client)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def measure(
        self, fault: Callable[[Meanwhile], Change], free: Iterator[str], concerned: Callable[[str], bool]
    ) -> None:
        """`concerned` tells for which names another server is responsible afterwards; `free` are such names."""
        kept = [each for each in self.load.kept if not each.lease.lost and concerned(each.name)]
        assert kept, "the fault concerns no lease that is kept"
        early, late = ([next(free) for _ in self._clients] for _ in range(2))
        callers: list[Future[float]] = []
        change = fault(lambda: callers.extend(self._ask(early)))
        delay = Delay(os.getpid(), *self._pids())
        callers += self._ask(late)
        told: dict[str, float] = {}
        renewed: dict[str, float] = {}

        def granted() -> bool:
            return all(each.done() for each in callers)

        pending: dict[str, Callable[[], bool]]
        if change.moved is not None:
            pending = {"served": lambda: granted() and self._served(change)}
        else:
            pending = {"granted": granted, "settled": lambda: _settled(kept, change, told, renewed)}
        if change.left is not None:
            pending["left"] = change.left

        def look() -> bool:
            for what in [what for what, condition in pending.items() if condition()]:
                del pending[what]
                if what == "settled":
                    self._note("told", told.values(), change, delay)
                    self._note("renewed", renewed.values(), change, delay)
                else:
                    self._note(what, [boottime()], change, delay)
            return not pending

        try:
            wait_for(look, within=PATIENCE, what="all to go on")
        except AssertionError:
            raise AssertionError(f"not within {PATIENCE} s: {', '.join(pending)}; {self}") from None
        for each in callers:
            each.result(0)

    def _ask(self, names: list[str]) -> list[Future[float]]:
        return [start(partial(granted_at, *each)) for each in zip(self._clients, names, strict=True)]

    def _note(self, what: str, times: Collection[float], change: Change, delay: Delay) -> None:
        if not times:
            return
        took, busy = max(0.0, max(times) - change.since), delay.seconds()
        self.found[what].append(took)
        if took - busy >= LIMITS[what]:
            self._late.append(f"{what}: {took:.2f} s, of which the machine was busy for {busy:.2f} s")

    def _served(self, change: Change) -> bool:
        return any(each.name == change.moved and each.since > change.since for each in self.load.held[-100:])

    def judge(self, what: str, rounds: int) -> None:
        """After the load has ended."""
        load, overlaps = self.load, self.load.overlaps()
        longest = max((min(one.until, other.until) - other.since for one, other in overlaps), default=0.0)
        errors = ", ".join(f"{count} {name}" for name, count in load.errors.items())
        print(
            f"\n{what}, {rounds} times: {load.grants} grants, {load.increments} increments, "
            f"{load.increments - load.counted()} lost, {load.stale} refused, {load.repeated()} fences given twice, "
            f"{sum(each.lost for each in load.held)} leases lost, {len(overlaps)} overlaps, "
            f"the longest {longest:.2f} s; errors: {errors or 'none'}; {self}"
        )
        assert load.unexpected == []
        assert load.counted() == load.increments, "an increment was lost"
        assert not load.repeated(), "a fence was given twice"
        assert load.waiting == [], "a caller in line got nothing"
        assert not self._late, self._late
        assert longest < 2 * LIMITS["told"], "a busy machine needs another second"

    def __str__(self) -> str:
        return "; ".join(
            f"{what} {max(times):.3f} s at most, median {statistics.median(times):.3f} s"
            for what, times in self.found.items()
        )


def _settled(kept: list[Kept], change: Change, told: dict[str, float], renewed: dict[str, float]) -> bool:
    for name, lease, _ in kept:
        if name in told or name in renewed:
            continue
        tenure = lease.tenure
        if lease.lost:
            told[name] = boottime()
        elif tenure.deadline - tenure.terms.valid >= change.asked:  # a renewal that was sent since then
            renewed[name] = boottime()
    return len(told) + len(renewed) == len(kept)
