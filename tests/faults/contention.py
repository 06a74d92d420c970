"""Contention without a deadlock, to provoke false alarms. `test_no_false_alarm.py` runs it in children.

Two games, both with a detector that runs as soon as a worker waits:

*in order*: every worker takes two or three of a few names, shared by all processes, in one order, to read or to write.

*philosophers*: each holds a fork and waits a few milliseconds for the neighbour's, over and over, but there is one seat
too few to wait on, so that of each ring at least one never waits. There is no circle at any moment; but all the edges
of one come and go all the time, and a detector that reads one after the other sees a closed one now and then.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from holdtight import AsyncLocks, DeadlockDetected, Locks, LockTimeout, Unavailable
from holdtight.base.plan import Bell, Park, Step
from holdtight.base.values import Owner
from holdtight.core.deadlock import Watch

NAMES = [f"n{number}" for number in range(5)]
MEMBERS = 3
AFTER = 0.0
HELD = 0.002
LEFTOVERS = 6.0
"""Seconds after which the place in line is gone of a waiter that could not withdraw."""


def a_moment() -> float:
    """Seconds to wait: most give up soon, so that their neighbours can wait; some wait long."""
    return random.choice([0.002, 0.003, 0.004, 0.04])


def pick() -> list[str]:
    return sorted(random.sample(NAMES, random.choice([2, 3])))


def in_some_way(locks: Any, name: str) -> Any:
    return random.choice([locks.lock(name), locks.rwlock(name).read(), locks.rwlock(name).write()])


class Game:
    """Prints what the detector of one client counts, about four times a second until it is ended."""

    def __init__(self, locks: Any) -> None:
        self._locks = locks
        self.errors: list[DeadlockDetected] = []
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._tell, daemon=True).start()

    @property
    def over(self) -> bool:
        return self._ended or bool(self.errors)

    def _listen(self) -> None:
        sys.stdin.readline()
        self._ended = True

    def _tell(self) -> None:
        while not self.over:
            time.sleep(0.25)
            print(self, flush=True)

    def __str__(self) -> str:
        tally = self._locks.deadlocks
        said = "|".join(str(self.errors[0]).splitlines()) if self.errors else ""
        return f"{tally.runs} {tally.dismissed} {len(self.errors)} {said}"


# Threads


def _in_order(locks: Locks, game: Game) -> None:
    while not game.over:
        names = pick()
        try:
            with ExitStack() as stack:
                for name in names:
                    stack.enter_context(in_some_way(locks, name))
                time.sleep(HELD)
        except DeadlockDetected as error:
            game.errors.append(error)


def _dine(locks: Locks, game: Game, seats: threading.Semaphore, mine: str, others: str) -> None:
    while not game.over:
        try:
            with locks.lock(mine):
                for _ in range(20):
                    with seats:
                        try:
                            locks.lock(others).acquire(wait=a_moment()).release()
                        except LockTimeout:
                            pass
                        except Unavailable:
                            time.sleep(LEFTOVERS)
        except DeadlockDetected as error:
            game.errors.append(error)


def in_threads(url: str, ring: str, *, rings: int = 1, ordered: int = 3) -> None:
    with Locks(url, deadlock_after=AFTER) as locks:
        game = Game(locks)
        threads = [threading.Thread(target=_in_order, args=(locks, game)) for _ in range(ordered)]
        for number in range(rings):
            seats = threading.Semaphore(MEMBERS - 1)
            forks = [f"{ring}-{number}-{at}" for at in range(MEMBERS)]
            for at, fork in enumerate(forks):
                seat = (locks, game, seats, fork, forks[(at + 1) % MEMBERS])
                threads.append(threading.Thread(target=_dine, args=seat))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


# Tasks


async def _in_order_too(locks: AsyncLocks, game: Game) -> None:
    while not game.over:
        names = pick()
        try:
            async with AsyncExitStack() as stack:
                for name in names:
                    await stack.enter_async_context(in_some_way(locks, name))
                await asyncio.sleep(HELD)
        except DeadlockDetected as error:
            game.errors.append(error)


async def _dine_too(locks: AsyncLocks, game: Game, seats: asyncio.Semaphore, mine: str, others: str) -> None:
    while not game.over:
        try:
            async with locks.lock(mine):
                for _ in range(20):
                    async with seats:
                        try:
                            async with asyncio.timeout(a_moment()):
                                lease = await locks.lock(others).acquire()
                            await lease.release()
                        except TimeoutError:
                            pass
        except DeadlockDetected as error:
            game.errors.append(error)


def in_tasks(url: str, ring: str, *, rings: int = 4, ordered: int = 3) -> None:
    async def main() -> None:
        async with AsyncLocks(url, deadlock_after=AFTER) as locks:
            game = Game(locks)
            games = [_in_order_too(locks, game) for _ in range(ordered)]
            for number in range(rings):
                seats = asyncio.Semaphore(MEMBERS - 1)
                forks = [f"{ring}-{number}-{at}" for at in range(MEMBERS)]
                for at, fork in enumerate(forks):
                    games.append(_dine_too(locks, game, seats, fork, forks[(at + 1) % MEMBERS]))
            await asyncio.gather(*games)

    asyncio.run(main())


# In a child


def play(url: str, colour: str, ring: str, dawdling: str) -> None:
    """Runs until a line of input comes, or the detector was wrong."""
    dawdle(float(dawdling))
    (in_threads if colour == "sync" else in_tasks)(url, ring)


def dawdle(seconds: float) -> None:
    """From here on a detector pauses between two readings, so that much can happen meanwhile."""
    ask, publish = Watch._ask, Watch._publish
    publishing: set[Watch] = set()

    def ask_slowly(watch: Watch, step: Step) -> Generator[Step | Park, Any, Any]:
        if watch not in publishing:
            until = watch._clock() + random.expovariate(1 / seconds)
            bell: Bell | None = yield Park(watch._wait.waiter, until, watch._touch)
            if bell is not None:
                watch._look_at = min(watch._look_at, watch._clock() + (bell.look or 0.0))
        return (yield from ask(watch, step))

    def publish_quickly(watch: Watch, held: Sequence[Owner]) -> Generator[Step | Park, Any, None]:
        publishing.add(watch)
        try:
            yield from publish(watch, held)
        finally:
            publishing.discard(watch)

    if seconds:
        patched: Any = Watch
        patched._ask, patched._publish = ask_slowly, publish_quickly
