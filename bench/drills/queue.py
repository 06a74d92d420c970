"""A long queue: does a hand-over cost the server more when ten thousand wait than when ten do?"""

from __future__ import annotations

import asyncio
import time
from typing import TypedDict
from urllib.parse import urlsplit

from bench.drills.leases import resident
from bench.variants import Variant
from bench.wire import Connection
from holdtight import AsyncLocks


class Handovers(TypedDict):
    handovers: int
    seconds: float
    script_us: float
    idle_us_per_second: float
    bytes_each: float
    """Of memory of this process for each waiter, its task included."""


def handovers(variant: Variant, *, waiters: int, seconds: float) -> Handovers:
    """Tasks wait for one name; each that gets it releases it at once and queues again.

    The time that the server spends on scripts while nothing is handed over (waiters keep their places
    alive) is measured first and subtracted: it belongs to waiting.
    """
    return asyncio.run(_handovers(variant.url, waiters, seconds))


async def _handovers(url: str, waiters: int, seconds: float) -> Handovers:
    connection = Connection(urlsplit(url).port or 6379)
    count = 0

    async def wait() -> None:
        nonlocal count
        while True:
            async with lock:
                count += 1

    async with AsyncLocks(url, max_waiters=2 * waiters) as locks:
        lock = locks.lock(f"queue:{waiters}", ttl=30)
        first = await lock.acquire()
        queued = connection.scripts()[0] + waiters
        memory = resident()
        tasks = [asyncio.create_task(wait()) for _ in range(waiters)]
        while connection.scripts()[0] < queued:
            await asyncio.sleep(0.05)
        bytes_each = (resident() - memory) / waiters
        idle, start = connection.scripts()[1], time.perf_counter()
        await asyncio.sleep(seconds)
        idle_rate = (connection.scripts()[1] - idle) / (time.perf_counter() - start)

        await first.release()
        await asyncio.sleep(0.2)
        (_, usec), before, start = connection.scripts(), count, time.perf_counter()
        await asyncio.sleep(seconds)
        span = time.perf_counter() - start
        result = Handovers(
            handovers=count - before,
            seconds=span,
            script_us=connection.scripts()[1] - usec - idle_rate * span,
            idle_us_per_second=idle_rate,
            bytes_each=bytes_each,
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    connection.close()
    return result
