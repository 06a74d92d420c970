"""Deadlocks among processes, of which some are killed, hang or answer late; and bells that ring meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdtight import AsyncLocks, DeadlockDetected, Locks
from holdtight.core import deadlock
from holdtight.grants.lease import BaseLease
from holdtight.stores.redis import wait_records
from tests.faults import circling
from tests.faults.clients import COLOURS, asks, load_scripts, start, tidy, waiting
from tests.support.processes import StartChild, wait_for
from tests.support.proxy import Proxy
from tests.support.servers import RunningServer

WORK = [circling.in_a_thread, circling.in_a_task]


def nothing_published(server: RunningServer) -> bool:
    return not server.keys("ht:waits:*")


def make_the_victim(locks: Any) -> None:
    """Its waiters have higher ids than all others."""
    locks.client.id = b"\xff" * 8
    locks.client.owners.clear()


@pytest.mark.parametrize("members", [2, 3, 10])
def test_exactly_one_process_of_a_circle_gives_up(
    private_server: RunningServer, start_child: StartChild, members: int
) -> None:
    children = [
        start_child(WORK[at % 2], private_server.url, f"lock {at}", f"lock {(at + 1) % members}")
        for at in range(members)
    ]
    for at, child in enumerate(children):
        child.expect(f"holds lock {at}", within=60)
    for child in children:
        child.send("go")
    said = [child.wait_line(30) for child in children]
    (error,) = [line for line in said if line != "served"]
    told = [line for line in error.split("|") if " holds " in line]
    assert len(told) == members
    for at, child in enumerate(children):
        (line,) = [line for line in told if f"(member lock {at})" in line]
        assert f"pid {child.pid}" in line
        assert f"holds 'lock {at}' and waits for 'lock {(at + 1) % members}'" in line
        assert child.wait(10) == 0
    tidy(private_server)


def test_a_killed_process_is_no_member(private_server: RunningServer, start_child: StartChild) -> None:
    """Its place in line and its note outlive it by seconds; its lock is free when its ttl is over."""
    with Locks(private_server.url, deadlock_after=0) as locks, locks.lock("b"):
        make_the_victim(locks)
        child = start_child(circling.in_a_thread, private_server.url, "a", "b", "2")
        child.expect("holds a")
        child.send("go")
        wait_for(lambda: not nothing_published(private_server))
        child.kill()
        name = f"holdtight-{child.pid}-"
        wait_for(lambda: not any(each["name"].startswith(name) for each in private_server.clients()))
        assert waiting(private_server, "b") == 1
        with locks.lock("a", wait=10):  # and no DeadlockDetected
            pass
        assert locks.deadlocks.runs >= 1


@pytest.mark.parametrize("blocked", [False, True])
def test_a_victim_whose_loop_is_blocked_is_stood_in_for(
    private_server: RunningServer, monkeypatch: pytest.MonkeyPatch, blocked: bool
) -> None:
    monkeypatch.setattr(deadlock, "GRACE", 1.0)
    waits_already, unblock = threading.Event(), threading.Event()

    async def block_the_loop() -> None:
        while nothing_published(private_server):
            await asyncio.sleep(0.01)
        waits_already.set()
        if blocked:
            unblock.wait(20)

    async def victim() -> str:
        async with AsyncLocks(private_server.url, deadlock_after=0.1) as locks:
            make_the_victim(locks)
            blocker = asyncio.create_task(block_the_loop())
            try:
                async with locks.lock("a"), locks.lock("b"):
                    return "served"
            except DeadlockDetected:
                return "deadlock"
            finally:
                await blocker

    with Locks(private_server.url, deadlock_after=0.1) as locks:
        outcome = "served"
        try:
            with locks.lock("b"):
                other = start(lambda: asyncio.run(victim()))
                assert waits_already.wait(10)
                with locks.lock("a", wait=20):
                    pass
        except DeadlockDetected:
            outcome = "deadlock"
        unblock.set()
        outcomes = outcome, other.result(20)
    assert outcomes == (("deadlock", "served") if blocked else ("served", "deadlock"))
    assert nothing_published(private_server)


# A hand-over in the middle of a run.


class Waiter:
    """Holds one lock, in a block, and waits for "b" through the proxy, looking for deadlocks all the time."""

    def __init__(self, colour: str, url: str) -> None:
        work: Callable[[str], int] = (
            self._in_a_thread if colour == "sync" else lambda url: asyncio.run(self._in_a_task(url))
        )
        self.fence = start(lambda: work(url))

    def _in_a_thread(self, url: str) -> int:
        with Locks(url, deadlock_after=0) as locks, locks.lock("a"), locks.lock("b") as lease:
            return lease.fence

    async def _in_a_task(self, url: str) -> int:
        async with AsyncLocks(url, deadlock_after=0) as locks, locks.lock("a"), locks.lock("b") as lease:
            return lease.fence


@pytest.fixture
def holder(private_server: RunningServer) -> Any:
    load_scripts(private_server)
    with Locks(private_server.url) as locks:
        yield locks.lock("b", ttl=60).acquire()


def handed_fence(server: RunningServer, lease: BaseLease) -> int:
    """The fence of the grant that the next waiter was handed."""
    value: str = server.command("GET", "ht:{b}")
    fence = int(value.encode("utf-8", "surrogateescape")[27:43])
    assert fence > lease.fence
    return fence


PARTS: dict[str, Callable[[bytes], bool]] = {
    "publish": lambda raw: b"SET\r\n" in raw and b":waits:" in raw,
    "blockers": asks(wait_records.BLOCKERS),
    "published": lambda raw: b"GET\r\n" in raw and b":waits:" in raw,
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("bell", ["before the reply", "behind the reply"])
def test_a_hand_over_in_the_middle_of_a_run_is_confirmed_at_once(
    private_server: RunningServer, proxy: Proxy, holder: Any, colour: str, part: str, bell: str
) -> None:
    """Otherwise its claim window would pass, and the waiter would ask only when the old holder's ttl is over."""
    is_of_a_run = PARTS[part]
    held_back = proxy.hold_reply(is_of_a_run) if bell == "behind the reply" else None
    waiter = Waiter(colour, proxy.url)
    wait_for(lambda: waiting(private_server, "b") == 1)
    if held_back is not None:
        held_back.wait()
        holder.release()
        fence = handed_fence(private_server, holder)
        held_back.release()
    else:
        proxy.wait_for_request(is_of_a_run)
        proxy.delay(requests=0.3)
        proxy.clear()
        proxy.wait_for_request(is_of_a_run)
        proxy.delay()
        holder.release()
        fence = handed_fence(private_server, holder)
    began = time.monotonic()
    assert waiter.fence.result(10) == fence, "the very grant that was handed over"
    assert time.monotonic() - began < 5
    assert nothing_published(private_server)
    tidy(private_server)
