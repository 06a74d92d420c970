"""Tests of forks run these programs in children, which fork themselves: the test process has too many threads."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import redis
import redis.asyncio
from redis.exceptions import LockError

from holdtight.compat.redis_py import AsyncLock, Lock
from tests.compat.face import CLASSES, Colour, Maker
from tests.faults.forking import forked, say, wait_for_exit


def release_in_a_fork(maker: Maker, colour: Colour, url: str) -> None:
    """The child tries to release what its parent holds."""
    if colour == "sync":
        lock = CLASSES[maker, colour](redis.Redis.from_url(url), "a", timeout=20)
        lock.acquire()
        forked(lambda: _try(lock.release))
        return

    async def hold() -> None:
        client = redis.asyncio.Redis.from_url(url)
        mine = CLASSES[maker, colour](client, "a", timeout=20)
        await mine.acquire()
        pid = os.fork()
        if pid == 0:
            # The child cannot use the parent's loop: it makes another.
            asyncio._set_running_loop(None)
            _try(lambda: asyncio.run(_released(mine, url)))
            os._exit(0)
        assert wait_for_exit(pid) == 0
        await client.aclose()

    asyncio.run(hold())


async def _released(lock: Any, url: str) -> None:
    if lock.redis.connection_pool is not None:
        lock.redis = redis.asyncio.Redis.from_url(url)
    await lock.release()


def _try(work: Any) -> None:
    try:
        work()
        say("child: released")
    except LockError as error:
        say(f"child: {type(error).__name__}")


def leave_a_block(url: str, ending: str) -> None:
    """A child that is forked inside of a block leaves it as its parent will."""
    client = redis.Redis.from_url(url)
    with Lock(client, "a", timeout=20) as lock:
        pid = os.fork()
        if pid == 0:
            assert lock.local.token is None
            assert not lock.owned()
            assert lock.locked()
            if ending == "exit":
                sys.exit(7)
        else:
            code = wait_for_exit(pid)
            say(f"child {code}")
            assert lock.owned()
    say("left")
    assert not client.exists("a")


def a_life_of_its_own(url: str) -> None:
    """The child waits for its parent's lock with the very object, on connections and under values of its own."""
    client = redis.Redis.from_url(url)
    lock = Lock(client, "a", timeout=20, sleep=0.01)
    lock.acquire()
    parents = lock.local.token
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with Lock(client, "b", timeout=20) as own:
            assert own.owned()
        assert not Lock(client, "a", timeout=20).acquire(blocking=False)
        say("child waits")
        os.write(writing, b"!")
        with lock:
            assert lock.owned()
            assert lock.local.token != parents
        os._exit(0)
    os.read(reading, 1)
    assert lock.owned()
    lock.release()
    say(f"child {wait_for_exit(pid)}")
    seen = set()
    for _ in range(200):
        lock.acquire()
        seen.add(lock.local.token)
        lock.release()
    say(f"values {len(seen)}")


def values_are_not_shared(url: str) -> None:
    """Values are made in batches; parent and child must not use the same batch."""
    client = redis.Redis.from_url(url)
    lock = Lock(client, "a", timeout=20)
    with lock:
        pass

    def next_values() -> set[bytes]:
        found = set()
        for _ in range(50):
            lock.acquire()
            found.add(lock.local.token or b"")
            lock.release()
        return found

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, b"".join(sorted(next_values())))
        os._exit(0)
    assert wait_for_exit(pid) == 0
    theirs = os.read(reading, 100_000)
    ours = next_values()
    assert len(theirs) == 50 * 32
    say(f"shared {sum(value in theirs for value in ours)}")


def a_loop_of_its_own(url: str) -> None:
    client = redis.asyncio.Redis.from_url(url)
    lock = AsyncLock(client, "a", timeout=20, sleep=0.01)

    async def take_and_give() -> None:
        async with lock:
            assert await lock.owned()

    async def fork_inside() -> None:
        await lock.acquire()
        pid = os.fork()
        if pid == 0:
            asyncio._set_running_loop(None)
            assert lock.local.token is None
            asyncio.run(take_and_give())
            say("child got it")
            os._exit(0)
        await lock.release()
        say(f"child {await asyncio.to_thread(wait_for_exit, pid)}")
        await take_and_give()
        await client.aclose()

    asyncio.run(fork_inside())
    say("parent goes on")
