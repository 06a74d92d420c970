"""Programs that run jobs, for tests that kill and pause them: `once_program` runs one call of `once`."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from typing import Any

from holdtight import AsyncLocks, LeaseLost, Locks, Skipped

__all__ = [
    "async_leading_program",
    "fleet_member",
    "flight_program",
    "leading_program",
    "once_program",
    "overrunning_program",
]


def _say(*words: object) -> None:
    print(*words, flush=True)


def once_program(url: str, colour: str, policy: Any) -> None:
    """One call; says what happens in its body, and how it ended."""
    if colour == "sync":
        with Locks(url, ttl=1) as locks:

            @locks.once("job", at_least=60, after_failure=policy)
            def job() -> str:
                _say("body")
                return "returned"

            _say("ready")
            sys.stdin.readline()
            _say(job())
        return

    async def main() -> None:
        async with AsyncLocks(url, ttl=1) as locks:

            @locks.once("job", at_least=60, after_failure=policy)
            async def job() -> str:
                _say("body")
                return "returned"

            _say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            _say(await job())

    asyncio.run(main())


def fleet_member(url: str) -> None:
    """Runs the occurrence that each line names, and says which of them it ran."""
    with Locks(url, ttl=2) as locks:

        @locks.once("fleet", per="{occurrence}")
        def job(occurrence: str) -> str:
            return occurrence

        _say("ready")
        for line in sys.stdin:
            got = job(line.strip())
            _say(got.why if isinstance(got, Skipped) else f"ran {got}")


def flight_program(url: str, number: str) -> None:
    """Computes a value when a line comes, slowly if the line says so, and says what it got."""
    with Locks(url) as locks:
        slow = False

        @locks.single_flight("value", ttl=60, lease_ttl=1, wait=30)
        def value() -> str:
            _say("computing")
            if slow:
                sys.stdin.readline()
            return number

        _say("ready")
        for line in sys.stdin:
            slow = line.strip() == "slowly"
            _say("got", value())


def leading_program(url: str, path: str, on_overrun: Any = "log") -> None:
    """Leads, and writes each time at which it began a `check()` that passed, on a clock that all processes share."""
    with Locks(url) as locks:
        leader = locks.leader("leading", ttl=1.5, grace=0.4)
        signal.signal(signal.SIGTERM, lambda *_: leader.stop())

        def work(term: Any) -> None:
            _say("term", term.fence)
            with open(path, "a", buffering=1) as file:
                while not term.lost:
                    before = time.clock_gettime(time.CLOCK_MONOTONIC)
                    try:
                        term.check()
                    except LeaseLost:
                        return
                    file.write(f"{before:.6f} {term.fence}\n")
                    time.sleep(0.002)

        _say("ready")
        leader.run(work, pause=0.05, on_overrun=on_overrun)
    _say("stopped")


def async_leading_program(url: str) -> None:
    """Leads until a TERM, whose handler is Python's own, not that of the loop."""

    async def main() -> None:
        async with AsyncLocks(url) as locks:
            leader = locks.leader("leading")
            signal.signal(signal.SIGTERM, lambda *_: leader.stop())

            async def work(term: Any) -> None:
                _say("leads")
                await asyncio.sleep(3600)

            await leader.run(work)

    asyncio.run(main())
    _say("stopped")


def overrunning_program(url: str, colour: str) -> None:
    """Does not look whether it still leads, and blocks the thread or loop that it runs in. A line stops it."""

    def stop_at_a_line(leader: Any) -> None:
        if sys.stdin.readline():
            leader.stop()

    def blocks(term: Any) -> None:
        _say("leads")
        time.sleep(60)

    async def blocks_the_loop(term: Any) -> None:
        blocks(term)

    def lead(locks: Any, work: Any) -> Any:
        leader = locks.leader("leading", ttl=1.5, grace=0.4)
        threading.Thread(target=stop_at_a_line, args=(leader,), daemon=True).start()
        return leader.run(work, on_overrun="exit")

    async def main() -> None:
        async with AsyncLocks(url) as locks:
            await lead(locks, blocks_the_loop)

    if colour == "asyncio":
        asyncio.run(main())
    else:
        with Locks(url) as locks:
            lead(locks, blocks)
