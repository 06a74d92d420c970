"""The same test gives the same events at the same moments, every time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from holdtight import AsyncLocks, LeaseLost, Locks, LockTimeout
from holdtight.events import Event
from holdtight.testing import Clock, lose

RUNS = 200


class Log:
    """What happened, with owners by the order in which they came up."""

    def __init__(self, clock: Clock, *clients: Locks | AsyncLocks) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self._clock = clock
        self._owners: dict[str, int] = {}
        for client in clients:
            client.events.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        owner = self._owners.setdefault(event.owner, len(self._owners))
        fence = getattr(event, "fence", None)
        self.note(type(event).__name__, event.name, owner, fence)

    def note(self, *what: Any) -> None:
        self.lines.append((self._clock.now(), *what))


def a_day_with_threads() -> list[tuple[Any, ...]]:
    clock = Clock()
    locks = Locks(clock.store(), ttl=3)
    log = Log(clock, locks)

    def patient(name: str) -> None:
        for _ in range(3):
            with locks.lock("a"):
                log.note(name, "in")

    def impatient(name: str, wait: float) -> None:
        for _ in range(4):
            try:
                with locks.lock("a", wait=wait):
                    log.note(name, "in")
            except LockTimeout:
                log.note(name, "gave up")

    holder = locks.lock("a", ttl=4, renew=False).acquire()
    threads: list[threading.Thread] = []
    for work in ((patient, "p"), (impatient, "i", 1.5), (patient, "q"), (impatient, "j", 0.7)):
        thread = threading.Thread(target=work[0], args=work[1:])
        threads.append(thread)
        thread.start()
        clock.until_waiting(len(threads))
        clock.advance(0.25)
    clock.advance(60)
    for thread in threads:
        thread.join(10)
    log.note("lost" if holder.lost else "held")
    locks.close()
    return log.lines


def a_day_with_tasks_and_threads() -> list[tuple[Any, ...]]:
    clock = Clock()
    blocking = Locks(clock.store(), ttl=3)

    async def day() -> list[tuple[Any, ...]]:
        locks = AsyncLocks(clock.store(), ttl=3)
        log = Log(clock, blocking, locks)

        def take(name: str) -> None:
            for _ in range(2):
                with blocking.lock("a"):
                    log.note(name, "in")

        async def take_async(name: str) -> None:
            for _ in range(2):
                try:
                    async with locks.lock("a", wait=8) as lease:
                        log.note(name, "in")
                        if name == "u":
                            lease.on_lost(lambda lost: log.note("told"))
                            lose(lease)
                            await asyncio.sleep(1000)
                except (LeaseLost, LockTimeout) as error:
                    log.note(name, type(error).__name__)

        holder = blocking.lock("a", ttl=4, renew=False).acquire()
        threads = [threading.Thread(target=take, args=(name,)) for name in ("t", "s")]
        tasks: list[asyncio.Task[None]] = []
        for thread, name in zip(threads, ("u", "v"), strict=True):
            thread.start()
            clock.until_waiting(2 * len(tasks) + 1)
            tasks.append(asyncio.create_task(take_async(name)))
            await clock.advance(0.1)
        await clock.advance(100)
        await asyncio.gather(*tasks)
        for thread in threads:
            thread.join(10)
        log.note("lost" if holder.lost else "held")
        await locks.aclose()
        return log.lines

    lines = asyncio.run(day())
    blocking.close()
    return lines


def test_a_day_with_threads_is_the_same_every_time() -> None:
    first = a_day_with_threads()
    assert {("p", "in"), ("q", "in"), ("i", "gave up"), ("j", "gave up")} <= {line[1:] for line in first}
    assert [line[0] for line in first] == sorted(line[0] for line in first)
    for run in range(RUNS):
        assert a_day_with_threads() == first, f"in run {run}"


def test_a_day_with_tasks_and_threads_is_the_same_every_time() -> None:
    first = a_day_with_tasks_and_threads()
    assert {("t", "in"), ("u", "LeaseLost"), ("told",), ("v", "in"), ("s", "in")} <= {line[1:] for line in first}
    assert [line[0] for line in first] == sorted(line[0] for line in first)
    for run in range(RUNS):
        assert a_day_with_tasks_and_threads() == first, f"in run {run}"
