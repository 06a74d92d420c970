"""How often the event loop turns, and how often it writes, for a lock that is free."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

import pytest

from holdtight import AsyncLocks
from holdtight.stores.redis.link import SocketLink
from tests.support.servers import RunningServer


class CountingSelector(selectors.DefaultSelector):
    turns = 0

    def select(self, timeout: float | None = None) -> Any:
        self.turns += 1
        return super().select(timeout)


async def pairs(locks: AsyncLocks, tasks: int, each: int) -> None:
    async def run(task: int) -> None:
        for number in range(each):
            async with locks.lock(f"{task}:{number}"):
                pass

    await asyncio.gather(*map(run, range(tasks)))


def measured(url: str, tasks: int, each: int, figure: Callable[[CountingSelector], int]) -> int:
    """How much a counter grows over many pairs. Some pairs before do not count: they connect and load scripts."""
    selector = CountingSelector()

    async def main() -> int:
        async with AsyncLocks(url) as locks:
            await pairs(locks, tasks, 2)
            before = figure(selector)
            await pairs(locks, tasks, each)
            return figure(selector) - before

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(main())


def test_one_task_needs_two_turns_of_the_loop_for_a_request(server: RunningServer) -> None:
    turns = measured(server.url, 1, 100, lambda selector: selector.turns)
    assert turns <= 2 * 200 + 20  # two requests a pair; some turns are those of gather and of timers


def test_many_tasks_share_their_writes(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = 0
    push_out = SocketLink.push_out

    def counted(link: SocketLink, data: bytes) -> bytes:
        nonlocal writes
        writes += 1
        return push_out(link, data)

    monkeypatch.setattr(SocketLink, "push_out", counted)
    written = measured(server.url, 64, 20, lambda _: writes)
    assert written <= 64 * 20 * 2 / 8
