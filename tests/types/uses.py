"""Good and bad uses of the public surface. Never runs: type checkers read it, see test_types.py.

Each line that ends with `# wrong` must be an error for mypy and for pyright; no other line may be one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any, assert_type

import redis
import redis.asyncio
import valkey

import holdtight
from holdtight import (
    AsyncLease,
    AsyncLock,
    AsyncLocks,
    AuditRecord,
    Backoff,
    Drift,
    Duration,
    Finding,
    Lease,
    Lock,
    LockInfo,
    Locks,
    LossReason,
    Profile,
    Target,
)
from holdtight.events import Lost

# Clients.

Locks()
Locks("redis://localhost")
Locks(["redis://a", "redis://b", "redis://c"])
Locks(("redis://a", redis.Redis(), "redis://c"))
Locks(redis.Redis())
Locks(redis.asyncio.Redis())
Locks(valkey.Valkey())
Locks(redis.RedisCluster.from_url("redis://a"))
Locks(namespace="shop", ttl="10s", wait=timedelta(seconds=3), label=None, on_unavailable="local")
Locks(drift=Drift(rate=0.02, fixed="5ms"), retry=Backoff(first=0.1, cap="2s"), spin=False, max_connections=5)
Locks(credentials="secret")
Locks(credentials=("user", "secret"))
Locks(credentials=lambda: ("user", "secret"))
Locks(profiles={"orders:*": Profile(ttl=10, wait=None, renew=True, max_hold="1h", label="orders")})
AsyncLocks("memory://", max_ttl="5m", restart_guard=False, connect_timeout=1)
Locks(42)  # wrong
Locks([1, 2, 3])  # wrong
Locks(ttl=None)  # wrong
Locks(wait=object())  # wrong
Locks(on_unavailable="panic")  # wrong
Locks(timeout=5)  # wrong
Locks(drift=0.01)  # wrong
Locks(credentials=5)  # wrong
Locks(profiles={"orders:*": {"ttl": 10}})  # wrong
Locks(max_connections="five")  # wrong
Locks(label=5)  # wrong
Locks(max_ttl=None)  # wrong
AsyncLocks(spin=False)
AsyncLocks(42)  # wrong
AsyncLocks([1, 2, 3])  # wrong
AsyncLocks(ttl=None)  # wrong
AsyncLocks(wait=object())  # wrong
AsyncLocks(on_unavailable="panic")  # wrong
AsyncLocks(timeout=5)  # wrong
AsyncLocks(drift=0.01)  # wrong
AsyncLocks(label=5)  # wrong
AsyncLocks(credentials=5)  # wrong
AsyncLocks(profiles={"orders:*": {"ttl": 10}})  # wrong
AsyncLocks(max_connections="five")  # wrong
Profile(ttl=None)  # wrong
Profile(renew="yes")  # wrong
Profile(max_hold=object())  # wrong
Profile(label=5)  # wrong


def open_client(target: Target, ttl: Duration) -> Locks:
    return Locks(target, ttl=ttl)


# Blocking code.

locks = Locks("memory://")
lock = locks.lock("order:42", ttl=5, wait="2s", reentrant=True, renew=False, max_hold=None, label="checkout")
assert_type(lock, Lock)
locks.lock("order:42", wait=None, max_hold=timedelta(minutes=5), label=None)
locks.lock(42)  # wrong
locks.lock("order:42", ttl=None)  # wrong
locks.lock("order:42", wait=object())  # wrong
locks.lock("order:42", renew="no")  # wrong
locks.lock("order:42", reentrant="yes")  # wrong
locks.lock("order:42", max_hold=object())  # wrong
locks.lock("order:42", label=5)  # wrong
locks.lock("order:42", timeout=5)  # wrong
locks.lock("order:42", 5)  # wrong
locks.rwlock("book", ttl=5).read(wait=1)
locks.rwlock("book", ttl=None)  # wrong
locks.rwlock("book").read(ttl=None)  # wrong
locks.rwlock("book").write(timeout=5)  # wrong
locks.rwlock("book", max_hold=object())  # wrong
locks.rwlock("book", label=5)  # wrong
locks.semaphore("seats", permits=3, label="x").acquire(2, wait=0)
locks.semaphore("seats")  # wrong
locks.semaphore("seats", permits="three")  # wrong
locks.semaphore("seats", permits=3, max_hold=object())  # wrong
locks.semaphore("seats", permits=3, label=5)  # wrong
locks.semaphore("seats", permits=3, reentrant=True)  # wrong
locks.multi("a", lock, locks.multi("b", "c"), wait=3)
locks.multi(1)  # wrong
locks.multi("a", ttl=None)  # wrong
locks.multi("a", max_hold=object())  # wrong
locks.multi("a", label=5)  # wrong
assert_type(locks.inspect("order:42"), LockInfo)
assert_type(locks.list("order:*"), Iterator[LockInfo])
assert_type(locks.force_release("order:42", reason="it hangs", by="ops", owner=None), AuditRecord | None)
assert_type(locks.audit(10, name="order:42"), list[AuditRecord])
assert_type(locks.doctor(), list[Finding])
locks.list(1)  # wrong
locks.force_release("order:42")  # wrong
locks.force_release("order:42", "it hangs")  # wrong
locks.audit("10")  # wrong
assert_type(locks.adopt("text", ttl=5), Lease)
locks.adopt("text", ttl=None)  # wrong
locks.adopt("text", label=5)  # wrong

with locks.lock("order:42") as lease:
    assert_type(lease, Lease)
    assert_type(lease.fence, int)
    assert_type(lease.reason, LossReason | None)
    assert_type(lease.remaining(), float)
    lease.renew("30s")
    lease.on_lost(lambda lost: print(lost.name))
    assert_type(lease.wait_lost(1), bool)
    lease.renew(object())  # wrong
    lease.extend(5)  # wrong

with lock.hold(wait=3) as lease:
    assert_type(lease.detach(ttl=5), str)

assert_type(lock.acquire(wait=None), Lease)
assert_type(lock.try_acquire(), Lease | None)
lock.acquire(blocking=False)  # wrong
lock.acquire(3)  # wrong
lock.release()  # wrong
lock.try_acquire().fence  # wrong

with AsyncLocks("memory://"):  # wrong
    pass


# Asyncio code.

alocks = AsyncLocks("memory://")


async def asynchronous() -> None:
    alock = alocks.lock("order:42", ttl=5, wait="2s")
    assert_type(alock, AsyncLock)
    async with alock as lease:
        assert_type(lease, AsyncLease)
        await lease.renew("30s")
        await lease.wait_lost(1)
        await lease.renew(object())  # wrong
    assert_type(await alock.acquire(wait=3), AsyncLease)
    assert_type(await alock.try_acquire(), AsyncLease | None)
    assert_type(await alocks.adopt("text"), AsyncLease)
    assert_type(await alocks.inspect("order:42"), LockInfo)
    assert_type(alocks.list(), AsyncIterator[LockInfo])
    assert_type(await alocks.force_release("order:42", reason="it hangs"), AuditRecord | None)
    assert_type(await alocks.audit(), list[AuditRecord])
    assert_type(await alocks.doctor(), list[Finding])
    async for info in alocks.list("order:*"):
        assert_type(info, LockInfo)
    async with alock.hold(wait=3) as lease:
        pass
    async with alocks.rwlock("book").write(ttl=5) as lease:
        await lease.downgrade()
    await alocks.semaphore("seats", permits=3, label="x").acquire(2, wait=0)
    async with alocks.multi("a", alock, alocks.multi("b", "c"), wait=3) as lease:
        pass
    assert_type(await alock.locked(), bool)
    await alock.acquire(timeout=3)  # wrong
    await alock.acquire(3)  # wrong
    alock.acquire().fence  # wrong
    (await alock.try_acquire()).fence  # wrong
    await alock.release()  # wrong
    await lease.extend(5)  # wrong
    alocks.lock(42)  # wrong
    alocks.lock("order:42", 5)  # wrong
    alocks.lock("order:42", ttl=None)  # wrong
    alocks.lock("order:42", wait=object())  # wrong
    alocks.lock("order:42", renew="no")  # wrong
    alocks.lock("order:42", reentrant="yes")  # wrong
    alocks.lock("order:42", max_hold=object())  # wrong
    alocks.lock("order:42", label=5)  # wrong
    alocks.lock("order:42", timeout=5)  # wrong
    alocks.rwlock("book", ttl=None)  # wrong
    alocks.rwlock("book").read(ttl=None)  # wrong
    alocks.rwlock("book").write(timeout=5)  # wrong
    alocks.semaphore("seats")  # wrong
    alocks.semaphore("seats", permits="three")  # wrong
    alocks.semaphore("seats", permits=3, reentrant=True)  # wrong
    alocks.multi(1)  # wrong
    alocks.multi("a", ttl=None)  # wrong
    alocks.multi(lock)  # wrong
    alocks.list(1)  # wrong
    await alocks.adopt("text", ttl=None)  # wrong
    await alocks.adopt("text", label=5)  # wrong
    await alocks.force_release("order:42")  # wrong
    await alocks.force_release("order:42", "it hangs")  # wrong
    await alocks.audit("10")  # wrong
    with alock:  # wrong
        pass
    async with lock:  # wrong
        pass
    async with Locks("memory://"):  # wrong
        pass


# Decorators keep the signature.


@locks.lock("report")
def report(day: str, *, pages: int = 3) -> list[str]:
    return [day] * pages


plain: Callable[[str], list[str]] = report
assert_type(report("monday", pages=2), list[str])
report(5)  # wrong
report("monday", page=2)  # wrong


@alocks.lock("report")
async def areport(day: str, *, pages: int = 3) -> list[str]:
    return [day] * pages


coroutine_function: Callable[[str], Coroutine[Any, Any, list[str]]] = areport
assert_type(asyncio.run(areport("monday")), list[str])


async def started() -> None:
    task = asyncio.create_task(areport("monday"))
    assert_type(await task, list[str])
    await areport(5)  # wrong


@locks.multi("a", "b")
def both(day: str) -> int:
    return len(day)


assert_type(both("monday"), int)


@locks.lock("report")
async def wrong_colour() -> None: ...  # what this gives cannot be called


asyncio.run(wrong_colour())  # wrong


@alocks.lock("report")  # wrong
def other_colour() -> None: ...


# Events and errors.


def on_lost(event: object) -> None:
    if isinstance(event, Lost):
        assert_type(event.fence, int)
        event.fences  # wrong


locks.events.subscribe(on_lost)
locks.events.subscribe(5)  # wrong

try:
    lock.acquire()
except holdtight.LockTimeout as error:
    code: str = error.code
    print(code, error.holder, error.waited)
