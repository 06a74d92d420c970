"""`test_deadlocks.py` runs these in children: the members of a circle, each a process of its own."""

from __future__ import annotations

import asyncio
import sys

from holdtight import AsyncLocks, DeadlockDetected, Locks


def say(*words: object) -> None:
    print(*words, flush=True)


def told(error: DeadlockDetected) -> str:
    return "|".join(["deadlock", *str(error).splitlines()])


def in_a_thread(url: str, mine: str, others: str, ttl: str = "30") -> None:
    """Holds one lock, says so, and waits for another when told."""
    with Locks(url, deadlock_after=0.1, ttl=float(ttl), label=f"member {mine}") as locks:
        try:
            with locks.lock(mine):
                say("holds", mine)
                sys.stdin.readline()
                with locks.lock(others):
                    say("served")
        except DeadlockDetected as error:
            say(told(error))


def in_a_task(url: str, mine: str, others: str) -> None:
    async def main() -> None:
        async with AsyncLocks(url, deadlock_after=0.1, label=f"member {mine}") as locks:
            try:
                async with locks.lock(mine):
                    say("holds", mine)
                    await asyncio.to_thread(sys.stdin.readline)
                    async with locks.lock(others):
                        say("served")
            except DeadlockDetected as error:
                say(told(error))

    asyncio.run(main())
