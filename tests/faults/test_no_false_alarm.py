"""No wait ends because of a false deadlock: counted under contention, with the delay set to zero."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from holdtight import AsyncLocks, DeadlockDetected, Locks
from holdtight.base.plan import Park, Step
from holdtight.core.deadlock import Cycle, Watch
from holdtight.stores.redis import wait_records
from tests.faults import contention
from tests.faults.clients import COLOURS, asks, load_scripts, start, tidy, waiting
from tests.support.processes import Child, StartChild, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer


class Player:
    """One process of the game, and its last report."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.runs = self.dismissed = 0

    def hear(self) -> bool:
        """False after its last report."""
        line = self.child.next_line(60)
        if line is None:
            return False
        runs, dismissed, alarms, said = line.split(" ", 3)
        assert alarms == "0", said.replace("|", "\n")
        self.runs, self.dismissed = int(runs), int(dismissed)
        return True

    def stop(self) -> None:
        self.child.send("stop")
        while self.hear():
            pass
        assert self.child.wait(30) == 0, self.child.errors


def compete(server: RunningServer, start_child: StartChild, runs: int) -> tuple[int, int]:
    """Two processes of each colour, one of them with a slow detector, until there were that many runs in all.
    Returns how many, and how many cycles the second reading dismissed."""
    players = [
        Player(start_child(contention.play, server.url, colour, f"{colour}-{dawdling}", dawdling))
        for colour in COLOURS
        for dawdling in ("0", "0.001")
    ]
    while sum(player.runs for player in players) < runs:
        for player in players:
            assert player.hear(), player.child.errors
    for player in players:
        player.stop()
    assert all(player.runs for player in players)
    return sum(player.runs for player in players), sum(player.dismissed for player in players)


def test_contention_without_a_deadlock_is_none(private_server: RunningServer, start_child: StartChild) -> None:
    runs, _ = compete(private_server, start_child, 1_000)
    assert runs >= 1_000
    assert private_server.keys("ht:waits:*") == []
    tidy(private_server)


@pytest.mark.long
def test_a_hundred_thousand_runs_without_a_false_alarm(
    private_server: RunningServer, start_child: StartChild, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    runs, dismissed = compete(private_server, start_child, 100_000)
    took = time.monotonic() - began
    for what, value in (("runs", runs), ("dismissed", dismissed), ("seconds", round(took))):
        record_property(what, value)
    print(f"{runs} runs in {took:.0f} s, {dismissed} cycles dismissed by the second reading, no alarm")
    assert runs >= 100_000
    assert dismissed > 0, "it would have been no test: there was nothing to be wrong about"
    tidy(private_server)


# One that a single reading is known to see.


class Others:
    """One holds b and waits for c until told to give up; then one that holds c waits for a. On a loop of their own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self.gave_up, self._finish = threading.Event(), asyncio.Event()
        self._then = asyncio.Event()
        self._first: asyncio.Task[None] | None = None
        self.done = start(lambda: self._loop.run_until_complete(self._play()))

    async def _play(self) -> None:
        async with AsyncLocks(self._url, deadlock_after=0) as locks:
            holds_c = asyncio.Event()
            self._first = asyncio.create_task(self._wait_and_give_up(locks, holds_c))
            await asyncio.gather(self._first, self._wait_then(locks, holds_c))

    async def _wait_and_give_up(self, locks: AsyncLocks, holds_c: asyncio.Event) -> None:
        async with locks.lock("b"):
            await holds_c.wait()
            try:
                await locks.lock("c").acquire()
            except asyncio.CancelledError:
                self._first.uncancel()  # type: ignore[union-attr]
                self.gave_up.set()
            await self._finish.wait()

    async def _wait_then(self, locks: AsyncLocks, holds_c: asyncio.Event) -> None:
        async with locks.lock("c"):
            holds_c.set()
            await self._then.wait()
            async with locks.lock("a"):
                pass

    def give_up(self) -> None:
        assert self._first is not None
        self._loop.call_soon_threadsafe(self._first.cancel)
        assert self.gave_up.wait(10)

    def wait_for_a(self) -> None:
        self._loop.call_soon_threadsafe(self._then.set)

    def finish(self) -> None:
        self._loop.call_soon_threadsafe(self._finish.set)
        self.done.result(20)
        self._loop.close()


def read_once(watch: Watch, cycle: Cycle) -> Generator[Step | Park, Any, bool]:
    yield from ()
    return True


@pytest.mark.parametrize("reads", [2, 1], ids=["read twice", "read once"])
def test_edges_that_were_never_there_at_once_are_no_deadlock(
    private_server: RunningServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """We hold a and wait for b, whose holder waits for c. While we look, it gives up. Only then the holder of c
    begins to wait for a. A detector that believes a single reading sees a circle that never existed."""
    load_scripts(private_server)
    if reads == 1:
        monkeypatch.setattr(Watch, "_is_still_there", read_once)
    others = Others(private_server.url)
    wait_for(lambda: private_server.keys("ht:waits:*"), what="the other to wait for c")
    looked = proxy.hold_reply(lambda raw: asks(wait_records.BLOCKERS)(raw) and b"{c}" in raw)

    def look(locks: Locks) -> str:
        locks.client.id = b"\xff" * 8  # the victim, if there is to be one
        locks.client.owners.clear()
        try:
            with locks.lock("a"), locks.lock("b", wait=20):
                return "served"
        except DeadlockDetected as error:
            return " ".join(error.cycle)

    with Locks(proxy.url, deadlock_after=0) as locks:
        me = start(lambda: look(locks))
        looked.wait()
        others.give_up()
        others.wait_for_a()
        wait_for(lambda: waiting(private_server, "a") == 1)
        wait_for(lambda: len(private_server.keys("ht:waits:*")) == 2, what="both to have said that they wait")
        looked.release()
        if reads == 2:
            wait_for(lambda: locks.deadlocks.dismissed == 1, what="the second reading")
            assert not me.done()
        else:
            assert me.result(10) == "a b c a", "the false alarm that the second reading prevents"
        others.finish()
        assert me.result(10) == ("served" if reads == 2 else "a b c a")
        assert locks.deadlocks.found == 2 - reads
