"""Good and bad uses of the ready-made jobs, fencing, integrations and what operators install. See uses.py."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, assert_type

import redis
import redis.asyncio

import holdtight
from holdtight import (
    AsyncLeader,
    AsyncLocks,
    AsyncTerm,
    Leader,
    Leadership,
    Locks,
    Peek,
    Profile,
    Run,
    Skipped,
    Term,
    Waiter,
    current_lease,
    embedded,
    history,
    metrics,
    tracing,
    tuning,
)
from holdtight.fencing import AsyncRedisGuard, AsyncSqlGuard, RedisGuard, SqlGuard
from holdtight.testing import lose

# Newer options.

Locks("redis://a", acks=1)
Locks("redis+sentinel://a/m", sentinel_credentials=("sentinel", "secret"))
Locks("redis+sentinel://a/m", sentinel_credentials=lambda: "secret")
Locks(profiles={"a": Profile(cohort=True, warn_after="1m")})
Locks(acks="1")  # wrong
Locks(sentinel_credentials=5)  # wrong
Profile(cohort="yes")  # wrong
Profile(warn_after=object())  # wrong
locks, alocks = Locks("memory://"), AsyncLocks("memory://")
locks.lock("a", cohort=True)
alocks.lock("a", cohort=False)
locks.lock("a", cohort="yes")  # wrong
locks.lock("a", cohort=None)  # wrong
locks.rwlock("a", cohort=True)  # wrong
locks.semaphore("a", permits=2, cohort=True)  # wrong


# Blocking jobs.


@locks.synchronized("order:{order_id}", wait=5, ttl="10s", reentrant=True, label=None)
def ship(order_id: int, *, fast: bool = False) -> list[str]:
    return [str(order_id)] * fast


assert_type(ship(42, fast=True), list[str])
assert_type(ship.name(order_id=42), str)
bare: Callable[[int], list[str]] = ship.__wrapped__
print(ship.__name__)
ship("42")  # wrong
ship(42, quick=True)  # wrong
ship.name("42")  # wrong
ship.last(42)  # wrong


@locks.once("billing:{tenant}", at_least="50m", per="{day}", after_failure="retry", on_skip="raise", wait=None)
def bill(tenant: str, day: str) -> int:
    return len(tenant + day)


assert_type(bill("acme", "monday"), int | Skipped)
assert_type(bill.last("acme", "monday"), Run | None)
bill.forget("acme", day="monday")
bill("acme")  # wrong
bill("acme", "monday") + 1  # wrong
bill.last("acme")  # wrong
bill.forget(1, 2)  # wrong


@locks.single_flight("report:{number}", ttl=300, stale="1m", negative={KeyError: 30}, refresh="background")
def report(number: int) -> dict[str, int]:
    return {"number": number}


assert_type(report(7), dict[str, int])
assert_type(report.refresh(7), dict[str, int])
assert_type(report.peek(7), Peek | None)
report.invalidate(7)
report.expire(number=7)
assert_type(locks.single_flight("fx", ttl=60).get_or_create(lambda: 1.08), float)
report("7")  # wrong
report.peek()  # wrong
report.invalidate("7")  # wrong
locks.single_flight("fx")  # wrong
locks.single_flight("fx", ttl=None)  # wrong
locks.single_flight("fx", ttl=60, refresh="later")  # wrong
locks.single_flight("fx", ttl=60, negative={"KeyError": 30})  # wrong
locks.single_flight("fx", ttl=60, timeout=5)  # wrong
locks.synchronized("a", timeout=5)  # wrong
locks.synchronized("a", ttl=None)  # wrong
locks.synchronized(5)  # wrong
locks.once("a", at_least=object())  # wrong
locks.once("a", after_failure="never")  # wrong
locks.once("a", on_skip="log")  # wrong
locks.once("a", expire=5)  # wrong


@locks.synchronized("a")
def gives_anything(number: int) -> Any:
    return number


gives_anything(1).whatever


@locks.lock("a")
def gives_anything_under_a_lock(number: int) -> Any:
    return number


gives_anything_under_a_lock(1).whatever


@locks.synchronized("a")
async def synchronized_wrong_colour() -> None: ...  # what this gives cannot be called


@locks.once("a")
async def once_wrong_colour() -> int:
    return 1


@locks.single_flight("a", ttl=60)
async def flight_wrong_colour() -> int:
    return 1


async def fetch() -> float:
    return 1.08


asyncio.run(synchronized_wrong_colour())  # wrong
asyncio.run(once_wrong_colour())  # wrong
once_wrong_colour.last()  # wrong
asyncio.run(flight_wrong_colour())  # wrong
locks.single_flight("fx", ttl=60).get_or_create(fetch) + 1  # wrong


# Methods keep their signature.


class Shop:
    @locks.synchronized("shop:{item}")
    def sell(self, item: str, n: int = 1) -> float:
        return len(item) * float(n)

    @locks.once("close")
    def close(self, day: str) -> int:
        return len(day)

    @locks.single_flight("price:{item}", ttl=60)
    def price(self, item: str) -> float:
        return float(len(item))

    @classmethod
    @locks.synchronized("all:{day}")
    def sell_all(cls, day: str) -> int:
        return len(day)

    @staticmethod
    @locks.synchronized("none:{day}")
    def sell_none(day: str) -> int:
        return len(day)

    @locks.synchronized("shop:{item}")
    async def wrong_colour(self, item: str) -> None: ...

    @alocks.synchronized("shop:{item}")
    async def asell(self, item: str, n: int = 1) -> float:
        return len(item) * float(n)

    @alocks.once("close")
    async def aclose(self, day: str) -> int:
        return len(day)

    @alocks.single_flight("price:{item}", ttl=60)
    async def aprice(self, item: str) -> float:
        return float(len(item))

    @classmethod
    @alocks.synchronized("all:{day}")
    async def asell_all(cls, day: str) -> int:
        return len(day)


class CornerShop(Shop): ...


shop = Shop()
assert_type(shop.sell("pen", n=2), float)
assert_type(shop.sell.name(shop, "pen"), str)
assert_type(CornerShop().sell("pen"), float)
assert_type(shop.close("monday"), int | Skipped)
assert_type(shop.close.last(shop, "monday"), Run | None)
assert_type(shop.price("pen"), float)
assert_type(shop.price.peek(shop, "pen"), Peek | None)
assert_type(shop.sell_all("monday"), int)
Shop.sell(shop, "pen")
Shop.sell_all("monday")
Shop.sell_none("monday")
handler: Callable[[str], float] = shop.price
shop.sell(5)  # wrong
shop.sell()  # wrong
shop.sell(shop, "pen", 1)  # wrong
shop.sell.name(shop, 5)  # wrong
shop.close.last("monday")  # wrong
shop.close.last(shop)  # wrong
CornerShop().close(5)  # wrong
shop.price(5)  # wrong
shop.price.invalidate("pen", 5)  # wrong
shop.sell_all(5)  # wrong
shop.wrong_colour("pen")  # wrong


# Asyncio jobs.


@alocks.synchronized("order:{order_id}")
async def aship(order_id: int) -> list[str]:
    return [str(order_id)]


@alocks.once("billing:{tenant}", at_least="50m")
async def abill(tenant: str) -> int:
    return len(tenant)


@alocks.single_flight("report:{number}", ttl=300)
async def areport(number: int) -> dict[str, int]:
    return {"number": number}


@alocks.once("a")  # wrong
def other_colour() -> int:
    return 1


coroutine_function: Callable[[int], Coroutine[Any, Any, list[str]]] = aship
assert_type(asyncio.run(aship(42)), list[str])


async def jobs() -> None:
    assert_type(await abill("acme"), int | Skipped)
    assert_type(await abill.last("acme"), Run | None)
    await abill.forget("acme")
    assert_type(await areport(7), dict[str, int])
    assert_type(await areport.peek(7), Peek | None)
    assert_type(await alocks.single_flight("fx", ttl=60).get_or_create(fetch), float)
    task = asyncio.create_task(areport.refresh(7))
    assert_type(await task, dict[str, int])
    assert_type(await shop.asell("pen", n=2), float)
    assert_type(await shop.aclose("monday"), int | Skipped)
    assert_type(await shop.aprice.refresh(shop, "pen"), float)
    assert_type(await shop.asell_all("monday"), int)
    assert_type(aship.name(42), str)
    await aship("42")  # wrong
    abill("acme") + 1  # wrong
    await abill(5)  # wrong
    await shop.asell(5)  # wrong
    await shop.aclose.last("monday")  # wrong
    await shop.aprice.peek(shop, 5)  # wrong
    await alocks.single_flight("fx", ttl=60).get_or_create(lambda: 1.08)  # wrong


# Leaders.

leader = locks.leader("poller", ttl="15s", grace=2, wait=None, label="10.0.0.5:80")
assert_type(leader, Leader)
locks.leader("poller", ttl=None)  # wrong
locks.leader("poller", timeout=5)  # wrong
locks.leader("poller", grace="soon", renew=True)  # wrong


def poll(term: Term) -> int:
    assert_type(term.since, float)
    term.proclaim("10.0.0.6:80")
    term.proclaim(5)  # wrong
    term.resign()
    return term.fence


with leader as term:
    assert_type(term, Term)
assert_type(leader.campaign(wait=5), Term)
leader.run(poll, pause="2s", on_error="campaign", on_overrun="exit")
leader.run(lambda term: term.check())
leader.stop()
assert_type(leader.current(), Leadership | None)
assert_type(leader.contenders(), tuple[Waiter, ...])
assert_type(leader.observe(), Iterator[Leadership | None])
assert_type(leader.on_change(print), Callable[[], None])
leader.run(poll, on_error="ignore")  # wrong
leader.run(poll, on_overrun="kill")  # wrong
leader.run(poll, pause=None)  # wrong
leader.run(lambda: None)  # wrong
leader.campaign(5)  # wrong
leader.on_change(lambda: None)  # wrong


async def apoll(term: AsyncTerm) -> None:
    await term.proclaim("10.0.0.6:80")
    await term.resign()


async def leading() -> None:
    aleader = alocks.leader("poller")
    assert_type(aleader, AsyncLeader)
    async with aleader as term:
        assert_type(term, AsyncTerm)
    await aleader.run(apoll, pause=1, on_error="campaign", on_overrun="log")
    aleader.stop()
    assert_type(await aleader.current(), Leadership | None)
    assert_type(aleader.observe(), AsyncIterator[Leadership | None])
    await aleader.run(apoll, on_error="ignore")  # wrong
    await aleader.run(apoll, on_overrun="kill")  # wrong
    await aleader.run(poll)  # wrong
    with aleader:  # wrong
        pass


# Fencing.

conn = sqlite3.connect(":memory:")
guard = SqlGuard("shop.fences", end_paused=True)
guard.create(conn)
with locks.lock("sku:1") as lease, guard.under(lease, conn) as tx:
    tx.execute("SELECT 1")
    guard.claim(conn, lease)
    guard.claim(conn, "sku:1", lease.fence)
    assert_type(guard.seen(conn, "sku:1"), int | None)
    assert_type(guard.prune(conn, older_than="720h"), int)
    guard.under(conn, lease)  # wrong
    guard.claim(conn, "sku:1")  # wrong
    guard.claim(lease)  # wrong
    guard.prune(conn, None)  # wrong
    RedisGuard(redis.Redis()).claim(lease)
    RedisGuard(redis.Redis()).write(lease, ("SET", "a", 1), ("INCR", "b"))
    RedisGuard(redis.Redis()).write(("SET", "a", 1))  # wrong
    AsyncSqlGuard().under(lease, conn)  # wrong
SqlGuard(5)  # wrong


async def fenced() -> None:
    async with alocks.lock("sku:1") as lease, AsyncSqlGuard().under(lease, conn):
        await AsyncRedisGuard(redis.asyncio.Redis()).claim(lease)
        guard.under(lease, conn)  # wrong


# What operators and tests use.

metrics.install(locks, names=["a"], label_of=lambda name: name[:1])
metrics.install(alocks, names={"a"})
metrics.watch(locks, "a", "b")
tracing.install(locks, always=True)
history.install(alocks)
times = tuning.watch(locks)
times.save(Path("profiles.json"))
Locks(profiles=tuning.load("profiles.json"))
assert_type([each.pattern for each in times.report()], list[str])
metrics.install("redis://a")  # wrong
metrics.install(locks, names=5)  # wrong
metrics.install(locks, label_of=lambda name: 5)  # wrong
metrics.watch(locks, 5)  # wrong
tracing.install(locks, always="yes")  # wrong
history.install(5)  # wrong
times.save(5)  # wrong
assert_type(current_lease("a").fence, int)
current_lease(5)  # wrong
assert_type(holdtight.docs("LOCK_TIMEOUT"), str)
with embedded.Server() as server:
    Locks(server.url)
with locks.lock("a") as held:
    lose(held)
    lose("a")  # wrong
