"""The end of several locks is cancelled, once or twice: it ends at once, and all of them are given back."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.aio.multi import AsyncMulti
from holdtight.stores.redis import script
from tests.faults.clients import asks, load_scripts
from tests.support.processes import wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

NAMES = "abcdef"
AT_ONCE = 1.5
"""Measured: some milliseconds. To ask for each name in turn takes two seconds each."""


@pytest.mark.parametrize("end", ["release", "block", "hold", "lease"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_cancelled_end_of_several_locks_lets_go_of_all(
    private_server: RunningServer, proxy: Proxy, end: str, times: int
) -> None:
    load_scripts(private_server)

    async def use(multi: AsyncMulti, begun: asyncio.Event) -> None:
        if end == "release":
            lease = await multi.acquire()
            begun.set()
            await lease.release()
        elif end == "lease":
            async with await multi.acquire():
                begun.set()
        else:
            async with multi if end == "block" else multi.hold():
                begun.set()

    async def main() -> float:
        locks = AsyncLocks(proxy.url, ttl=60)
        await (await locks.lock("warm").acquire()).release()
        held = proxy.hold_reply(asks(script.RELEASE))
        begun = asyncio.Event()
        task = asyncio.create_task(use(locks.multi(*NAMES), begun))
        await begun.wait()
        await asyncio.to_thread(held.wait)
        started = time.monotonic()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        seconds = time.monotonic() - started
        held.release()
        await locks.aclose()
        return seconds

    assert asyncio.run(main()) < AT_ONCE
    with Locks(private_server.url) as other:
        for name in NAMES:
            wait_for(lambda name=name: not other.lock(name).locked(), what=name)  # type: ignore[misc]
