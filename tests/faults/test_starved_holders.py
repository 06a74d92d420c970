"""A holder that is kept from running: still held if the keeper runs, known to be lost if nothing could."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import pytest

from holdtight import AsyncLocks, LeaseLost, Locks
from tests.faults.clients import COLOURS
from tests.support.processes import StartChild
from tests.support.servers import RunningServer


def test_a_lock_outlives_an_event_loop_that_is_blocked(private_server: RunningServer) -> None:
    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks, locks.lock("a", ttl=1.5) as lease:
            time.sleep(3)  # the fault itself
            lease.check()
            assert others.lock("a").try_acquire() is None
            await asyncio.sleep(0)
            lease.check()

    with Locks(private_server.url) as others:
        asyncio.run(main())


def test_a_loop_that_was_blocked_reads_what_has_come_before_it_loses_patience(
    private_server: RunningServer,
) -> None:
    """The request had not even left when the loop was blocked for longer than one waits for a reply."""

    async def main() -> None:
        async with AsyncLocks(private_server.url) as locks:
            lock = locks.lock("a", ttl=1.8, wait=0)
            for _ in range(3):
                async with lock:
                    pass
                task = asyncio.create_task(lock.acquire())
                asyncio.get_running_loop().call_soon(time.sleep, 0.8)  # behind the task, before its request leaves
                await (await task).release()

    asyncio.run(main())


def test_a_lock_outlives_busy_threads(private_server: RunningServer) -> None:
    stop = threading.Event()

    def spin() -> None:
        number = 0
        while not stop.is_set():
            number += 1

    threads = [threading.Thread(target=spin) for _ in range(4)]
    with (
        Locks(private_server.url) as others,
        Locks(private_server.url) as locks,
        locks.lock("a", ttl=1.5) as lease,
    ):
        for thread in threads:
            thread.start()
        try:
            time.sleep(3)  # the fault itself
            lease.check()
            assert others.lock("a").try_acquire() is None
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def hold_and_check(url: str, colour: str) -> None:
    """In a child: holds, says so, is stopped by the test, and looks as soon as it runs again."""

    async def hold() -> None:
        async with AsyncLocks(url) as locks:
            wait_for_the_stop(await locks.lock("a", ttl=0.5).acquire())

    if colour == "asyncio":
        asyncio.run(hold())
    else:
        with Locks(url) as locks:
            wait_for_the_stop(locks.lock("a", ttl=0.5).acquire())


def wait_for_the_stop(lease: object) -> None:
    assert hasattr(lease, "check")
    last = time.monotonic()
    print("held", flush=True)
    while True:
        now = time.monotonic()
        if now - last > 1:  # we have been stopped: the very next thing is the look
            with pytest.raises(LeaseLost) as lost:
                lease.check()
            reason = lost.value.reason
            print("lost", reason and reason.value, flush=True)
            return
        last = now


@pytest.mark.parametrize("colour", COLOURS)
def test_the_first_look_after_a_long_stop_tells_of_the_loss(
    private_server: RunningServer, start_child: StartChild, colour: str
) -> None:
    child = start_child(hold_and_check, private_server.url, colour)
    child.expect("held")
    child.pause()
    with Locks(private_server.url) as locks:
        lease = locks.lock("a").acquire(wait=3)  # the ttl frees it
        time.sleep(1.6)  # the stop lasts two seconds in all
        child.signal(signal.SIGCONT)
        child.expect("lost expired")
        assert child.wait() == 0
        lease.check()
        lease.release()
