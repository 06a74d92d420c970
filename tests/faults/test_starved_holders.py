"""A holder that cannot run: its lease is held if the keeper runs, and known to be lost if nothing could run."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from holdtight import AsyncLocks, LeaseLost, Locks
from holdtight.events import KeeperLate, Lost
from tests.faults import stopping
from tests.faults.clients import COLOURS
from tests.faults.quorum import StartNodes
from tests.support.processes import StartChild, wait_for
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
    """The request had not been sent when the loop was blocked for longer than the patience for a reply."""

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


@contextmanager
def busy_threads(count: int) -> Iterator[None]:
    """Threads that never wait: each keeps the interpreter for 5 ms at a time."""
    stop = threading.Event()

    def spin() -> None:
        number = 0
        while not stop.is_set():
            number += 1

    threads = [threading.Thread(target=spin) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.alone("half a second is enough for a keeper among four busy threads, not among four busy processes too")
def test_a_lock_outlives_busy_threads(private_server: RunningServer) -> None:
    with (
        Locks(private_server.url) as others,
        Locks(private_server.url) as locks,
        locks.lock("a", ttl=1.5) as lease,
        busy_threads(4),
    ):
        time.sleep(3)  # the fault itself
        lease.check()
        assert others.lock("a").try_acquire() is None


def hold_beside_busy_threads(url: str | list[str], leases: int, ttl: float, threads: int, seconds: float) -> int:
    """The number of lost leases."""
    with Locks(url) as locks:
        held = [locks.lock(f"n{number}", ttl=ttl).acquire() for number in range(leases)]
        with busy_threads(threads):
            time.sleep(seconds)  # the fault itself
            lost = sum(lease.lost for lease in held)
        for lease in held:
            if not lease.lost:
                lease.release()
    return lost


@pytest.mark.alone("what is measured is the keeper's share of one interpreter")
@pytest.mark.parametrize(("leases", "threads"), [(1500, 8), pytest.param(3000, 3, marks=pytest.mark.long)])
def test_many_leases_outlive_busy_threads(private_server: RunningServer, leases: int, threads: int) -> None:
    assert hold_beside_busy_threads(private_server.url, leases, 3, threads, seconds=8) == 0


@pytest.mark.long
@pytest.mark.alone("what is measured is the keeper's share of one interpreter")
def test_many_leases_on_a_quorum_outlive_busy_threads(start_nodes: StartNodes) -> None:
    nodes = start_nodes(3)
    assert hold_beside_busy_threads(nodes.urls, 700, 6, 4, seconds=10) == 0


@pytest.mark.long
@pytest.mark.parametrize(("leases", "threads", "seconds"), [(20_000, 8, 40), (100_000, 4, 60)])
def test_very_many_leases_outlive_busy_threads(
    private_server: RunningServer, leases: int, threads: int, seconds: float
) -> None:
    assert hold_beside_busy_threads(private_server.url, leases, 30, threads, seconds) == 0


@pytest.mark.long
def test_ten_thousand_leases_outlive_a_process_that_is_stopped_until_all_are_due(
    private_server: RunningServer, start_child: StartChild
) -> None:
    told = json.loads(start_child(stopping.main, private_server.url).wait_line(within=60))
    assert (told["lost"], told["missing"]) == (0, 0), told


def hold_and_tell_of_events(*urls: str) -> None:
    """In a child: two clients, one of which holds something when the test stops us for half a ttl."""
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def tell(whose: str) -> Callable[[object], None]:
        return lambda event: told.put(f"{whose} {event!r}") if isinstance(event, KeeperLate | Lost) else None

    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="logged: %(message)s")
    target = urls[0] if len(urls) == 1 else list(urls)
    with Locks(target) as idle, Locks(target) as locks:
        with idle.lock("idle"):
            pass
        idle.events.subscribe(tell("idle"))
        locks.events.subscribe(tell("holder"))
        leases = [locks.lock(f"n{number}", ttl=6).acquire() for number in range(20)]
        print("held", flush=True)
        print(told.get(timeout=30), flush=True)
        wait_for(lambda: min(lease.remaining() for lease in leases) > 4)
        print(f"lost {sum(lease.lost for lease in leases)}", told.empty(), flush=True)
        for lease in leases:
            lease.release()


@pytest.mark.parametrize("count", [1, 3])
def test_a_keeper_that_is_late_says_so_once_and_before_anything_is_lost(
    start_nodes: StartNodes, start_child: StartChild, count: int
) -> None:
    child = start_child(hold_and_tell_of_events, *start_nodes(count).urls)
    child.expect("held")
    child.pause()
    time.sleep(3.5)  # the fault itself: the renewals were due after 2 s, and the leases are lost after 6
    child.signal(signal.SIGCONT)
    said = [child.wait_line(), child.wait_line()]
    assert any(line.startswith("logged: keeper late by ") for line in said), said
    (late,) = (found[1] for line in said if (found := re.match(r"holder KeeperLate\(.*\blate=([0-9.]+)", line)))
    assert 1 < float(late) < 4
    child.expect("lost 0 True")
    assert child.wait() == 0


def hold_and_check(url: str, colour: str) -> None:
    """In a child: holds, says so, is stopped by the test, and checks as soon as it runs again."""

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
        if now - last > 1:  # the test has stopped us: check at once
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
