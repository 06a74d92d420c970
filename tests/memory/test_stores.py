"""The stores of a process: which clients share one, and when one is forgotten."""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable

import pytest

from holdtight import AsyncLocks, Locks, LossReason
from holdtight.keeper.keeper import runtime
from holdtight.stores.client import Client
from holdtight.stores.memory import place as module
from holdtight.stores.memory.place import Stores, stores
from tests.support.leases import renewed
from tests.support.processes import StartChild, wait_for


def test_one_name_is_one_store_and_another_name_another() -> None:
    with Locks("memory://one") as one, Locks("memory://one") as same, Locks("memory://two") as two:
        with one.lock("a"):
            assert same.lock("a").try_acquire() is None
            with two.lock("a", wait=0):
                pass
        with same.lock("a", wait=0):
            pass


def test_the_store_without_a_name_is_a_store_like_any_other() -> None:
    with Locks("memory://") as one, Locks("memory://") as same, one.lock("nameless"):
        assert same.lock("nameless").try_acquire() is None


def test_namespaces_are_apart_in_one_store() -> None:
    one, two = Locks("memory://spaces", namespace="a"), Locks("memory://spaces", namespace="b")
    with one, two, one.lock("x"), two.lock("x", wait=0):
        pass


def test_what_is_in_a_store_outlives_the_clients() -> None:
    with Locks("memory://kept") as first:
        text = first.lock("a").acquire().detach(ttl=20)
    del first
    gc.collect()
    with Locks("memory://kept") as second:
        assert second.lock("a").try_acquire() is None
        second.adopt(text).release()


def test_a_client_that_was_dropped_listens_no_more() -> None:
    locks = Locks("memory://dropped")
    with locks.lock("a"):
        pass
    assert len(stores.server("dropped").channels) == 1
    del locks
    gc.collect()
    wait_for(lambda: not stores.server("dropped").channels, within=15, what="the keeper to let go of it as well")


def test_an_asyncio_client_that_was_dropped_listens_no_more() -> None:
    import asyncio

    async def use() -> None:
        locks = AsyncLocks("memory://dropped-too")
        async with locks.lock("a"):
            pass
        assert len(stores.server("dropped-too").channels) == 1

    asyncio.run(use())
    gc.collect()
    wait_for(lambda: not stores.server("dropped-too").channels, within=15, what="the keeper to let go of it as well")


# Forgetting stores.


@pytest.fixture
def own_stores(monkeypatch: pytest.MonkeyPatch) -> tuple[Stores, list[int]]:
    now = [1_800_000_000_000_000]
    return Stores(lambda: now[0]), now


def test_stores_that_are_as_good_as_new_are_forgotten(own_stores: tuple[Stores, list[int]]) -> None:
    those, now = own_stores
    client = Client("ht")
    first = weakref.ref(those.server("0"))
    for number in range(2000):
        those.open(f"{number}", client, runtime).close()
        now[0] += 1_000_000
    gc.collect()
    assert len(those._servers) <= 2 * module.KEPT, "records are gone after a minute"
    assert first() is None


def test_a_store_with_a_connection_is_never_forgotten(own_stores: tuple[Stores, list[int]]) -> None:
    those, now = own_stores
    client = Client("ht")
    link = those.open("kept", client, runtime)
    kept = those.server("kept")
    for number in range(500):
        those.open(f"{number}", client, runtime).close()
        now[0] += 100_000_000
    assert those.server("kept") is kept
    link.close()
    for number in range(500):
        those.open(f"again {number}", client, runtime).close()
        now[0] += 100_000_000
    assert those.server("kept") is not kept


# Forks.


def child_has_stores_of_its_own() -> None:
    locks = Locks("memory://forked")
    held = locks.lock("a", ttl=3).acquire()
    waiting = threading.Thread(target=lambda: locks.lock("a").acquire(wait=20).release())
    waiting.start()
    wait_for(lambda: locks.inspect("a").waiting == 1)

    def child() -> None:
        assert held.lost
        assert held.reason is LossReason.FORKED
        assert stores.server("forked").time_left() == {}
        with locks.lock("a", wait=0, ttl=3) as own:
            assert own.fence > held.fence
            renewed(own)  # the child has a keeper
            assert locks.inspect("a").waiting == 0
        with Locks("memory://forked") as another, another.lock("b"):
            assert locks.lock("b").try_acquire() is None

    print(forked(child), flush=True)
    renewed(held)  # and the parent still has its own
    held.release()
    waiting.join(10)
    print("served" if not waiting.is_alive() else "left waiting", flush=True)


def forks_out_of_busy_threads() -> None:
    """At any moment some thread is in the middle of a request."""
    locks = Locks("memory://busy")
    stop = threading.Event()

    def take_and_give(number: int) -> None:
        while not stop.is_set():
            with locks.lock(f"{number % 2}"):
                pass

    threads = [threading.Thread(target=take_and_give, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()

    def child() -> None:
        for number in range(3):
            with locks.lock(f"{number}", wait=5):
                pass
        locks.close()

    print(sorted({forked(child) for _ in range(30)}), flush=True)
    stop.set()
    for thread in threads:
        thread.join(10)


def forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    found: list[int] = []

    def ended() -> bool:
        done, status = os.waitpid(pid, os.WNOHANG)
        found.append(status)
        return bool(done)

    wait_for(ended, what="the forked child to end")
    return os.waitstatus_to_exitcode(found[-1])


def test_a_forked_child_starts_with_empty_stores(start_child: StartChild) -> None:
    child = start_child(child_has_stores_of_its_own)
    assert child.lines(30) == ["0", "served"], child.errors
    assert child.wait() == 0


def test_children_forked_out_of_busy_threads_find_no_lock_that_nobody_holds(start_child: StartChild) -> None:
    child = start_child(forks_out_of_busy_threads)
    assert child.lines(60) == ["[0]"], child.errors
    assert child.wait() == 0
