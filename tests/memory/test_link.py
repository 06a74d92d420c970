"""A link to the store in this process: bells, batches, and the state after an interruption."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from holdtight import AsyncLocks, Locks
from holdtight.base.clock import boottime
from holdtight.base.plan import Bell
from holdtight.keeper.keeper import runtime
from holdtight.stores.client import Client
from holdtight.stores.memory.engine import Name
from holdtight.stores.memory.link import MemoryLink
from holdtight.stores.memory.place import Stores, micros
from holdtight.stores.redis.resp import command

OWNER, OTHER = b"o" * 24, b"p" * 24


@pytest.fixture
def stores() -> Stores:
    return Stores(micros)


@pytest.fixture
def link(stores: Stores) -> MemoryLink:
    return stores.open("", Client("ht"), runtime)


def ring(stores: Stores, link: MemoryLink, message: bytes) -> None:
    stores.server("")._ears[link.inbox](message)


def test_a_bell_wakes_the_parked_owner_and_no_other(stores: Stores, link: MemoryLink) -> None:
    for message in (b"g" + OTHER, b"n" + OTHER + b"500", b"n" + OWNER + b"250"):
        ring(stores, link, message)
    assert link.park(OWNER, boottime() + 10) == Bell(0.25)
    threading.Timer(0.01, ring, (stores, link, b"g" + OWNER)).start()
    assert link.park(OWNER, boottime() + 10) == Bell()


def test_a_park_ends_at_its_moment(link: MemoryLink) -> None:
    started = boottime()
    assert link.park(OWNER, started + 0.05) is None
    assert 0.05 <= boottime() - started < 5
    assert link.park(OWNER, started) is None


def test_a_bell_that_is_older_than_the_reply_is_dropped(stores: Stores, link: MemoryLink) -> None:
    ring(stores, link, b"g" + OWNER)
    link.call(command("TIME"), 1.0)
    assert link.park(OWNER, boottime()) is None
    ring(stores, link, b"g" + OWNER)
    link.call_aside(command("TIME"), 1.0)
    assert link.park(OWNER, boottime()) == Bell(), "a request about another name keeps the bell"


def test_requests_are_answered_in_order_whether_sent_one_by_one_or_together(link: MemoryLink) -> None:
    sets = [command("SET", "a", number) for number in range(3)]
    for request in (*sets, command("GET", "a")):
        link.send(request)
    assert link.owed == 4
    assert [link.reply() for _ in range(4)] == [b"OK", b"OK", b"OK", b"2"]
    assert link.owed == 0
    assert link.push_out(b"".join([*sets, command("GET", "a")])) == b""
    assert link.pump() == [b"OK", b"OK", b"OK", b"2"]
    assert link.pump() == []


def test_a_link_that_is_dropped_or_closed_listens_no_more(stores: Stores, link: MemoryLink) -> None:
    another = stores.open("", Client("ht"), runtime)
    assert len(stores.server("").channels) == 2
    another.close()
    assert stores.server("").channels == [link.inbox]
    another = stores.open("", Client("ht"), runtime)
    del another
    assert stores.server("").channels == [link.inbox]


# Ctrl-C, or whatever a signal handler raises, in the middle of a request.


class Interrupt(KeyboardInterrupt):
    """Raised by these tests only."""


def interrupt_next(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    real = getattr(Name, verb)

    def interrupted(self: Name, *args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(Name, verb, real)
        real(self, *args, **kwargs)
        raise Interrupt

    monkeypatch.setattr(Name, verb, interrupted)


def test_an_acquisition_that_was_granted_and_interrupted_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    with Locks("memory://interrupted") as locks, Locks("memory://interrupted") as others:
        with locks.lock("a"):
            pass
        interrupt_next(monkeypatch, "attempt")
        with pytest.raises(Interrupt):
            locks.lock("a").acquire()
        with others.lock("a", wait=0):
            assert locks.lock("a").try_acquire() is None
        with locks.lock("a", wait=0):
            pass


def test_an_acquisition_of_a_task_that_was_interrupted_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with AsyncLocks("memory://interrupted") as locks:
            async with locks.lock("a"):
                pass
            interrupt_next(monkeypatch, "attempt")
            try:
                await locks.lock("a").acquire()
            except Interrupt:
                caught.append(True)
            async with locks.lock("a", wait=0):
                pass

    caught: list[bool] = []
    asyncio.run(main())
    assert caught


def test_a_release_that_was_interrupted_is_seen_through_by_the_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    with Locks("memory://interrupted") as locks:
        lease = locks.lock("b").acquire()
        interrupt_next(monkeypatch, "release")
        with pytest.raises(Interrupt):
            lease.release()
        end = time.monotonic() + 10
        while locks.lock("b").locked():
            assert time.monotonic() < end
        with locks.lock("b", wait=0):
            pass


def test_a_wait_that_was_interrupted_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with Locks("memory://interrupted") as locks:
        lease = locks.lock("c").acquire()

        def interrupted(self: MemoryLink, owner: bytes, until: float) -> Bell | None:
            assert locks.inspect("c").waiting == 1
            raise Interrupt

        monkeypatch.setattr(MemoryLink, "park", interrupted)
        with pytest.raises(Interrupt):
            locks.lock("c").acquire()
        assert locks.inspect("c").waiting == 0
        lease.release()
