"""`test_signals.py` and `test_exit.py` run these programs in children: interrupted, or ended with something open."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
from typing import Any

from holdtight import AsyncLocks, Locks, LockTimeout
from tests.support.leases import renewed

TTL = 2.0
"""Leases end soon, but not before their program does."""


def say(*words: object) -> None:
    print(*words, flush=True)


def take_and_give_until_interrupted(url: str, colour: str) -> None:
    """Takes and releases without pause, so that a signal comes at any moment of the life of a lock."""
    if colour == "sync":
        locks = Locks(url)
        lock = locks.lock("a", ttl=TTL)
        with lock:
            pass
        say("ready")
        while True:
            with lock:
                pass

    async def main() -> None:
        async with AsyncLocks(url) as locks:
            lock = locks.lock("a", ttl=TTL)
            async with lock:
                pass
            say("ready")
            while True:
                async with lock:
                    pass

    asyncio.run(main())


def wait_until_interrupted(url: str, colour: str) -> None:
    """Waits for a lock that another process holds.

    What is loaded with the first wait has been loaded before: Python drops an interrupt that comes at the very end of
    an import, where it tidies up after itself.
    """
    if colour == "sync":
        with Locks(url) as first, contextlib.suppress(LockTimeout):
            first.lock("a", ttl=TTL).acquire(wait=0.01)
        say("ready")
        Locks(url).lock("a", ttl=TTL).acquire()
        return

    async def main() -> None:
        async with AsyncLocks(url) as first:
            with contextlib.suppress(LockTimeout):
                await first.lock("a", ttl=TTL).acquire(wait=0.01)
        say("ready")
        async with AsyncLocks(url) as locks:
            await locks.lock("a", ttl=TTL).acquire()

    asyncio.run(main())


def hold_until_interrupted(url: str, colour: str) -> None:
    if colour == "sync":
        with Locks(url).lock("a", ttl=TTL):
            say("ready")
            while True:
                time.sleep(60)

    async def main() -> None:
        async with AsyncLocks(url) as locks, locks.lock("a", ttl=TTL):
            say("ready")
            await asyncio.Event().wait()

    asyncio.run(main())


# Ends


def with_held_leases(url: str) -> None:
    locks = Locks(url)
    kept.append([locks.lock(f"a-{number}", ttl=5).acquire() for number in range(5)])
    say("end")


def with_waiting_threads(url: str) -> None:
    locks = Locks(url)
    kept.append(locks.lock("a", ttl=5).acquire())
    for _ in range(5):
        threading.Thread(target=lambda: locks.lock("a").acquire(), daemon=True).start()
    while locks.inspect("a").waiting < 5:
        pass
    say("end")


def with_a_blocked_callback(url: str) -> None:
    locks = Locks(url)
    lease = locks.lock("a", ttl=0.3, renew=False).acquire()
    entered = threading.Event()

    def block(_: object) -> None:
        entered.set()
        time.sleep(60)

    lease.on_lost(block)
    entered.wait(5)
    kept.append(lease)
    say("end")


def with_an_unclosed_async_client(url: str) -> None:
    async def main() -> None:
        locks = AsyncLocks(url)
        kept.append(locks)
        kept.append(await locks.lock("a", ttl=5).acquire())
        kept.append(asyncio.create_task(locks.lock("a").acquire()))
        while (await locks.lock("a").inspect()).waiting == 0:
            pass
        say("end")

    asyncio.run(main())


kept: list[Any] = []


def closing_properly(url: str) -> None:
    """With -X dev -W error nothing may appear on stderr."""

    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 60  # slow starts of a busy machine are not the subject
        async with AsyncLocks(url) as locks:
            async with locks.lock("a", ttl=2) as lease:
                await asyncio.to_thread(renewed, lease)
            with contextlib.suppress(TimeoutError):
                async with locks.lock("a"), asyncio.timeout(0.05):
                    await asyncio.create_task(locks.lock("a", wait=0.01).acquire())

    asyncio.run(main(), debug=True)
    with Locks(url) as locks:
        with locks.lock("a", ttl=2) as lease:
            renewed(lease)
        with locks.lock("b"), contextlib.suppress(TimeoutError):
            threads = [threading.Thread(target=try_in_vain, args=(locks,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    del locks
    gc.collect()
    say("end")


def try_in_vain(locks: Locks) -> None:
    assert locks.lock("b").try_acquire() is None


def two_runs_and_two_loops_at_once(url: str) -> None:
    locks = AsyncLocks(url)
    fences: list[int] = []

    async def work(times: int) -> None:
        for _ in range(times):
            async with locks.lock("a", ttl=5) as lease:
                fences.append(lease.fence)

    asyncio.run(work(20))
    asyncio.run(work(20))
    barrier = threading.Barrier(4)

    def at_once() -> None:
        barrier.wait()
        asyncio.run(work(2))

    for _ in range(50):
        threads = [threading.Thread(target=at_once) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def close() -> None:
        await work(1)
        await locks.aclose()

    asyncio.run(close())
    assert fences == sorted(set(fences)), "one after another"
    say(len(fences))


def main() -> None:
    globals()[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()


def with_a_closed_loop(*urls: str) -> None:
    """One task is inside a block and one waits when their loop is closed; the process lives on."""
    locks = AsyncLocks(urls[0] if len(urls) == 1 else urls)
    others = Locks(urls[0] if len(urls) == 1 else urls)
    kept.append(others.lock("wanted").acquire())
    entered = asyncio.Event()

    async def hold() -> None:
        async with locks.lock("held", ttl=0.6):
            entered.set()
            await asyncio.Event().wait()

    async def begin() -> None:
        kept.append([asyncio.create_task(hold()), asyncio.create_task(locks.lock("wanted").acquire())])
        await entered.wait()
        while len(urls) == 1 and not (await locks.inspect("wanted")).waiting:
            await asyncio.sleep(0.01)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.close()
    say("closed")
    sys.stdin.readline()
    os._exit(0)  # asyncio's own messages about tasks are not the subject
