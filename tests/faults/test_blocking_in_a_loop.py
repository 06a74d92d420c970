"""A blocking wait stops the event loop of its thread. If the holder needs that loop, waiting would never end."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdtight import AsyncLocks, DeadlockDetected, Lock, Locks, LockTimeout
from holdtight.sync import inside
from tests.faults.quorum import StartNodes
from tests.support.memory import MemoryStore
from tests.support.processes import PATIENCE, wait_for
from tests.support.servers import StartServer

Holder = Callable[[asyncio.Event, asyncio.Event], Coroutine[Any, Any, None]]


@pytest.fixture(params=["server", "memory", "quorum"])
def target(request: pytest.FixtureRequest, start_server: StartServer, start_nodes: StartNodes) -> Any:
    if request.param == "memory":
        return MemoryStore().url
    return start_server().url if request.param == "server" else start_nodes(3).urls


@pytest.fixture
def locks(target: Any) -> Iterator[Locks]:
    with Locks(target, ttl=30) as locks:
        yield locks


@pytest.fixture(autouse=True)
def not_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resets the warning that appears once a process, so that each test sees it."""
    monkeypatch.setattr(inside, "_warned", False)


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Runs it on a loop in another thread, so that a test can fail where the loop hangs."""
    came: list[Any] = []

    def begin() -> None:
        try:
            came.append(asyncio.run(main()))
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert came, "the event loop hangs"
    if isinstance(came[0], BaseException):
        raise came[0]
    return came[0]


@contextmanager
def in_a_moment(do: Callable[[], object]) -> Iterator[None]:
    """Calls it in another thread soon after the block has begun, and leaves the block when it has returned: a lease may
    be handed on by two of three nodes before the third has answered its release."""
    timer = threading.Timer(0.1, do)
    timer.start()
    try:
        yield
    finally:
        timer.join(PATIENCE)


async def meet(hold: Holder, ask: Callable[[], Any]) -> Any:
    """One task holds until it is told; another asks meanwhile."""
    holds, over = asyncio.Event(), asyncio.Event()
    holder = asyncio.create_task(hold(holds, over), name="the holder")
    await asyncio.wait([holder, asyncio.create_task(holds.wait())], return_when=asyncio.FIRST_COMPLETED)
    try:
        return await asyncio.create_task(_call(ask))
    finally:
        over.set()
        await holder


async def _call(ask: Callable[[], Any]) -> Any:
    return ask()


def in_block(lock: Any) -> Holder:
    async def hold(holds: asyncio.Event, over: asyncio.Event) -> None:
        with lock:
            holds.set()
            await over.wait()

    return hold


ASKED: dict[str, Callable[[Lock], Any]] = {
    "acquire": lambda lock: lock.acquire(),
    "with a limit": lambda lock: lock.acquire(wait=PATIENCE),
    "a block": lambda lock: lock.__enter__(),
    "hold": lambda lock: lock.hold().__enter__(),
    "decorated": lambda lock: lock(print)(),
    "multi": lambda lock: lock.client.multi(lock, "other").acquire(),
}


@pytest.mark.parametrize("how", ASKED)
def test_waiting_for_a_task_of_the_same_loop_is_a_deadlock_at_once(locks: Locks, how: str) -> None:
    lock = locks.lock("shared")
    with pytest.raises(DeadlockDetected, match=r"'shared' is held by task the holder.*AsyncLocks") as caught:
        run(lambda: meet(in_block(lock), lambda: ASKED[how](lock)))
    assert caught.value.cycle == ("shared", "shared")
    assert caught.value.name == "shared"
    wait_for(lambda: not lock.locked())
    lock.acquire(wait=PATIENCE).release()  # and no waiter is left in line


def test_other_lock_objects_of_the_name_wait_for_it_all_the_same(locks: Locks) -> None:
    with pytest.raises(DeadlockDetected):
        run(lambda: meet(in_block(locks.lock("shared")), locks.lock("shared", ttl=20).acquire))


def test_callers_that_do_not_wait_are_told_that_it_is_held(locks: Locks) -> None:
    lock = locks.lock("shared")
    assert run(lambda: meet(in_block(lock), lock.try_acquire)) is None
    with pytest.raises(LockTimeout):
        run(lambda: meet(in_block(lock), lambda: lock.acquire(wait=0)))


def test_the_holder_may_have_another_client(target: Any, locks: Locks) -> None:
    with Locks(target) as others, pytest.raises(DeadlockDetected, match="task the holder"):
        run(lambda: meet(in_block(others.lock("shared")), locks.lock("shared").acquire))


def test_the_holder_may_be_asynchronous_and_the_caller_not(target: Any, locks: Locks) -> None:
    async def main() -> None:
        async with AsyncLocks(target) as others:

            async def hold(holds: asyncio.Event, over: asyncio.Event) -> None:
                async with others.lock("shared"):
                    holds.set()
                    await over.wait()

            await meet(hold, locks.lock("shared").acquire)

    with pytest.raises(DeadlockDetected, match="task the holder"):
        run(main)


def test_a_block_around_the_loop_is_one_that_its_tasks_cannot_leave(locks: Locks) -> None:
    lock = locks.lock("shared")

    async def main() -> None:
        lock.acquire()

    def begin() -> None:
        with lock:
            asyncio.run(main())

    with pytest.raises(DeadlockDetected, match=r"this very thread.*AsyncLocks"):
        run(lambda: asyncio.to_thread(begin))


def test_a_callback_of_the_loop_stops_it_as_well(locks: Locks) -> None:
    lock = locks.lock("shared")

    def ask() -> Any:
        found: list[BaseException] = []
        called = asyncio.Event()

        def callback() -> None:
            try:
                lock.acquire()
            except DeadlockDetected as error:
                found.append(error)
            called.set()

        asyncio.get_running_loop().call_soon(callback)
        return found, called

    async def main() -> list[BaseException]:
        holds, over = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(in_block(lock)(holds, over))
        await holds.wait()
        found, called = ask()
        await called.wait()
        over.set()
        await holder
        return found  # type: ignore[no-any-return]

    assert len(run(main)) == 1


def test_a_task_that_waits_inside_its_own_block_for_another_is_told_as_well(locks: Locks) -> None:
    one, other = locks.lock("one"), locks.lock("other")

    def ask() -> None:
        with one:
            other.acquire()

    with pytest.raises(DeadlockDetected, match="'other' is held by task the holder"):
        run(lambda: meet(in_block(other), ask))


# Kinds


@pytest.mark.parametrize(("held", "asked"), [("write", "write"), ("write", "read"), ("read", "write")])
def test_readers_and_writers(locks: Locks, held: str, asked: str) -> None:
    shared = locks.rwlock("shared")
    with pytest.raises(DeadlockDetected):
        run(lambda: meet(in_block(getattr(shared, held)()), getattr(shared, asked)().acquire))
    run(lambda: meet(in_block(shared.read()), lambda: shared.read().acquire().release()))


@pytest.mark.parametrize("target", ["server", "memory"], indirect=True)
def test_a_writer_waits_for_a_reader_of_its_loop_among_others(target: Any, locks: Locks) -> None:
    shared = locks.rwlock("shared")
    with Locks(target) as others:
        leases = [others.rwlock("shared").read().acquire() for _ in range(5)]
        with pytest.raises(DeadlockDetected):
            run(lambda: meet(in_block(shared.read()), shared.write().acquire))
        for lease in leases:
            lease.release()


@pytest.mark.parametrize("target", ["server", "memory"], indirect=True)
def test_permits_are_a_deadlock_if_those_of_the_loop_are_too_many(target: Any, locks: Locks) -> None:
    semaphore = locks.semaphore("shared", permits=2)
    assert run(lambda: meet(in_block(semaphore), lambda: semaphore.acquire().release())) is None
    with pytest.raises(DeadlockDetected):
        run(lambda: meet(in_block(semaphore), lambda: semaphore.acquire(2)))
    with Locks(target) as others:
        theirs = others.semaphore("shared", permits=2).acquire()  # which may come back
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with pytest.raises(LockTimeout):
                run(lambda: meet(in_block(semaphore), lambda: semaphore.acquire(wait=0.2)))
        theirs.release()


# No deadlock


def test_a_holder_elsewhere_is_waited_for_with_a_warning_once_a_process(target: Any, locks: Locks) -> None:
    lock = locks.lock("shared")
    with Locks(target) as others, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            theirs = others.lock("shared").acquire()

            async def main() -> None:
                lock.acquire(wait=PATIENCE).release()

            with in_a_moment(theirs.release):
                run(main)
    assert [each.category for each in said] == [RuntimeWarning]
    assert "'shared'" in str(said[0].message)
    assert "AsyncLocks" in str(said[0].message)
    assert said[0].filename == __file__


def test_a_warning_that_is_an_error_leaves_nobody_in_line(target: Any, locks: Locks) -> None:
    async def main() -> None:
        locks.lock("shared").acquire(wait=PATIENCE)

    with Locks(target) as others:
        theirs = others.lock("shared").acquire()
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            with pytest.raises(RuntimeWarning):
                run(main)
        assert not others.inspect("shared").waiting
        theirs.release()


def test_a_lease_without_a_block_may_be_released_by_another_thread(locks: Locks) -> None:
    lock = locks.lock("shared")

    async def main() -> None:
        lease = lock.acquire()
        task = asyncio.create_task(_call(lambda: lock.acquire(wait=PATIENCE).release()))
        with in_a_moment(lease.release):
            await task

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run(main)


def test_a_task_of_another_loop_is_waited_for(locks: Locks) -> None:
    lock = locks.lock("shared")
    holds, over = threading.Event(), threading.Event()

    async def elsewhere() -> None:
        with lock:
            holds.set()
            await asyncio.to_thread(over.wait, PATIENCE)

    other = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    other.start()
    assert holds.wait(PATIENCE)

    async def main() -> None:
        with in_a_moment(over.set):
            lock.acquire(wait=PATIENCE).release()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        run(main)
    other.join(PATIENCE)


def test_a_free_lock_is_taken_without_a_word(locks: Locks) -> None:
    async def main() -> None:
        with locks.lock("shared"):
            await asyncio.sleep(0)

    run(main)
