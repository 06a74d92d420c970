"""`test_line.py` runs these waiters in children: they join the line when told, and print when they have the lock."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

from holdtight import AsyncLocks, Locks


def say(*words: object) -> None:
    with _speaking:
        print(*words, flush=True)


_speaking = threading.Lock()


def wanted(locks: Any, label: str) -> Any:
    """A read lock if the label says so."""
    if label.startswith("reader"):
        return locks.rwlock("a", ttl=5, label=label).read()
    return locks.lock("a", ttl=5, label=label)


def in_threads(url: str) -> None:
    """Each line of input is a label of one more waiter, in a thread of its own, which holds it for a moment."""
    locks = Locks(url)

    def wait(label: str) -> None:
        with wanted(locks, label) as lease:
            say(label, lease.fence, time.monotonic())

    for line in sys.stdin:
        threading.Thread(target=wait, args=(line.strip(),), daemon=True).start()


def in_tasks(url: str) -> None:
    """The same with tasks on one loop."""

    async def main() -> None:
        locks = AsyncLocks(url)
        tasks = set()

        async def wait(label: str) -> None:
            async with wanted(locks, label) as lease:
                say(label, lease.fence, time.monotonic())

        while line := await asyncio.to_thread(sys.stdin.readline):
            tasks.add(asyncio.create_task(wait(line.strip())))

    asyncio.run(main())
