"""`test_fork.py` runs these programs in children, which fork themselves: the test process has too many threads."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

import pytest

from holdtight import AsyncLocks, LeaseLost, Lock, Locks, LockTimeout, LossReason
from holdtight.grants.lease import BaseLease
from holdtight.stores.redis.link import SocketLink
from tests.support.leases import renewed
from tests.support.processes import wait_for


def say(text: object) -> None:
    print(text, flush=True)


def forked(work: Callable[[], None], *, unwinding: bool = False) -> int:
    """Runs `work` in a fork and returns its exit code. `unwinding`: an exception of `work` propagates in the child."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            if unwinding:
                raise
            traceback.print_exc()
            os._exit(1)
        if not unwinding:
            os._exit(0)
        return -1
    return wait_for_exit(pid)


def wait_for_exit(pid: int) -> int:
    def ended() -> list[int]:
        found, status = os.waitpid(pid, os.WNOHANG)
        return [os.waitstatus_to_exitcode(status)] if found else []

    code: int = wait_for(ended, what="the forked child to end")[0]
    return code


def owns_nothing(lease: BaseLease) -> None:
    assert lease.lost
    assert lease.reason is LossReason.FORKED
    assert lease.remaining() == 0
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert lost.value.reason is LossReason.FORKED


def open_sockets() -> set[int]:
    found = set[int]()
    for fd in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the one that the list was read with
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                found.add(fd)
    return found


def in_a_block(url: str, ending: str) -> None:
    with Locks(url) as locks:
        lock = locks.lock("a", ttl=3)
        with lock as lease:
            pid = os.fork()
            if pid == 0:
                owns_nothing(lease)
                started = time.monotonic()
                with locks.lock("b", ttl=3) as own:
                    assert time.monotonic() - started < 2
                    renewed(own)  # the child has a keeper
                assert lock.locked(), "the child sees its parent's lock held"
                lease.release()  # says nothing to the server
                assert lock.locked()
                assert lock.try_acquire() is None
                if ending == "_exit":
                    os._exit(0)
                if ending == "exit":
                    sys.exit(0)  # through the block: its own exception wins over LeaseLost
            else:
                code = wait_for_exit(pid)
                renewed(lease)
                say(f"child {code}")
        # With "leave" the child comes by here no more: leaving the block it owns nothing of raises LeaseLost.
        again = lock.try_acquire()
        assert again is not None
        again.release()
        say("released")


def in_an_async_block(url: str) -> None:
    def own_life() -> None:
        with Locks(url) as own, own.lock("b"):
            pass

        async def life() -> None:
            async with AsyncLocks(url) as own, own.lock("c"):
                pass
            async with inherited.lock("d"):
                pass

        asyncio.run(life())

    async def main() -> None:
        async with inherited, inherited.lock("a", ttl=3) as lease:
            pid = os.fork()
            if pid == 0:
                try:
                    owns_nothing(lease)
                    thread_free(own_life)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            code = await asyncio.to_thread(wait_for_exit, pid)
            await asyncio.to_thread(renewed, lease)
            say(f"child {code}")
        async with AsyncLocks(url) as others:
            again = await others.lock("a").try_acquire()
            assert again is not None
            await again.release()
        say("released")

    inherited = AsyncLocks(url)
    asyncio.run(main())


def thread_free(work: Callable[[], None]) -> None:
    """In a fork of a loop's thread, the loop no longer counts as running."""
    work()


def out_of_busy_threads(url: str) -> None:
    """Forks while threads take and give back, wait in line, and the keeper renews."""
    locks = Locks(url)
    held = locks.lock("held", ttl=3).acquire()
    stop = threading.Event()

    def take_and_give(number: int) -> None:
        while not stop.is_set():
            with locks.lock(f"busy-{number % 2}", ttl=3):
                pass

    threads = [threading.Thread(target=take_and_give, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()

    def child() -> None:
        owns_nothing(held)
        with locks.lock("busy-0", wait=5), locks.lock("mine"):
            pass
        locks.close()

    codes = [forked(child) for _ in range(15)]
    renewed(held)
    stop.set()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
    held.release()
    locks.close()
    say(f"children {sorted(set(codes))}")


_pool_locks: Locks | None = None


def _increment(path: str) -> int:
    assert _pool_locks is not None
    with _pool_locks.lock("counter", ttl=2) as lease:
        with open(path) as file:
            value = int(file.read())
        with open(path, "w") as file:
            file.write(str(value + 1))
        return lease.fence


def in_a_pool(url: str, path: str) -> None:
    global _pool_locks
    with open(path, "w") as file:
        file.write("0")
    _pool_locks = Locks(url)
    with _pool_locks.lock("outer", ttl=3) as lease:
        with multiprocessing.get_context("fork").Pool(4) as pool:
            fences = pool.map(_increment, [path] * 200, chunksize=1)
        renewed(lease)
    _pool_locks.close()
    with open(path) as file:
        say(f"{file.read()} {len(set(fences))}")


def while_somebody_waits(url: str) -> None:
    locks = Locks(url)
    entered = threading.Event()

    def wait() -> None:
        with locks.lock("a", ttl=2):
            entered.set()

    thread = threading.Thread(target=wait, daemon=True)
    with locks.lock("a", ttl=2):
        thread.start()
        wait_for(lambda: locks.inspect("a").waiting == 1)
        assert forked(lambda: sys.exit(0), unwinding=False) in (0, 1)
        pid = os.fork()
        if pid == 0:
            locks.close()
            os._exit(len(open_sockets()))
        assert wait_for_exit(pid) == 0, "the child keeps none of its parent's connections, not even those in use"
        assert locks.inspect("a").waiting == 1, "the child's end takes nobody out of the line"
    assert entered.wait(1), "the waiter is served as ever"
    thread.join(5)
    locks.close()
    say("served")


def out_of_waiting_threads(*urls: str) -> None:
    """On one server, or on a quorum. Some connections belong to threads that a child does not have."""
    before = open_sockets()
    with Locks(list(urls) if len(urls) > 1 else urls[0]) as locks:
        lease = locks.lock("a").acquire()

        def wait() -> None:
            locks.lock("a").acquire(wait=10).release()

        threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()

        def look() -> None:
            assert open_sockets() <= before

        def undisturbed() -> str | None:
            """Forks. The fork does not count if a connection was being made: a new socket has no owner yet."""
            sockets = open_sockets()
            links = sum(isinstance(each, SocketLink) and each.fd >= 0 for each in gc.get_objects())
            if not links == len(sockets - before) >= 3 * len(urls):
                return None
            said = f"child {forked(look)}"
            return said if open_sockets() == sockets else None

        say(wait_for(undisturbed))
        lease.release()
        for thread in threads:
            thread.join(10)


def the_same_lock_in_the_child(url: str) -> None:
    """The child is in a copy of its parent's block and holds nothing: it waits as any process does."""
    with Locks(url) as locks:
        lock = locks.lock("a", ttl=5)
        read, write = os.pipe()
        with lock:
            pid = os.fork()
            if pid == 0:
                try:
                    assert lock.try_acquire() is None
                    os.write(write, b"!")
                    lease = lock.acquire(wait=5)
                    lease.check()
                    lease.release()
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            os.read(read, 1)
        say(f"child {wait_for_exit(pid)}")


def in_a_cohort(url: str) -> None:
    """Forks while one thread holds a lock with cohort=True and another waits in the local line."""
    with Locks(url) as locks:
        lock = locks.lock("a", cohort=True, ttl=3)
        served: list[int] = []

        def wait_in_line() -> None:
            with lock as lease:
                served.append(lease.fence)

        with lock as lease:
            waiters = [threading.Thread(target=wait_in_line) for _ in range(2)]
            for waiter in waiters:
                waiter.start()
            wait_for(lambda: lock.inspect().waiting == 2, what="two to wait")

            def child() -> None:
                owns_nothing(lease)
                lease.release()  # hands nothing on, and says nothing to the server
                assert not locks.cohort.waiters("a", locks), "those are threads of the parent"
                assert lock.try_acquire() is None
                with pytest.raises(LockTimeout):
                    lock.acquire(wait=0.3)
                own = locks.lock("b", cohort=True, ttl=3)
                with own as mine:
                    renewed(mine)
                inside: list[int] = []
                threads = [threading.Thread(target=lambda: enter(own, inside)) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(10)
                assert len(inside) == 3

            say(f"child {forked(child)}")
            renewed(lease)
        for waiter in waiters:
            waiter.join(10)
        assert len(served) == 2
        assert min(served) > lease.fence
        say("served")


def enter(lock: Lock, inside: list[int]) -> None:
    with lock as lease:
        inside.append(lease.fence)
