"""One of the shop's processes: serves its share of the customers, many at a time, in asyncio tasks."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, MutableSequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from demo.shop import Shop

Guard = Callable[[str], AbstractAsyncContextManager[object]]
PAYMENT = 0.001  # seconds between looking at the stock and writing it back
COMPUTATION = 0.05  # seconds to compute what the cache does not have
PAGE = "front-page"


class Mode(Enum):
    NONE = "no lock"
    LOCAL = "a lock in each process"
    HOLDTIGHT = "holdtight"


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of all services together."""

    services: int = 4
    tasks: int = 16
    articles: int = 20
    stock: int = 1_000
    requests: int = 100_000
    asks: int = 100_000


@dataclass(slots=True)
class Shift:
    """One service's report. Times are of the clock that all processes of a machine share."""

    sale_began: float = 0.0
    sale_ended: float = 0.0
    longest_wait: float = 0.0


class Outbox(Protocol):
    def send(self, obj: object, /) -> None: ...


class Gate(Protocol):
    def wait(self, timeout: float | None = None) -> int: ...


@asynccontextmanager
async def guards(mode: Mode, url: str) -> AsyncIterator[Guard]:
    """The three ways of guarding a name. This is all the difference between the three runs."""
    if mode is Mode.NONE:
        yield lambda name: nullcontext()
    elif mode is Mode.LOCAL:
        own: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        yield lambda name: own[name]
    else:
        from holdtight import AsyncLocks

        async with AsyncLocks(url) as locks:
            yield lambda name: locks.lock(name, ttl=10)


class Service:
    def __init__(self, shop: Shop, guard: Guard, progress: MutableSequence[int], number: int) -> None:
        self._shop, self._guard = shop, guard
        self._progress, self._number = progress, number
        self.shift = Shift()

    async def buy(self, article: int) -> None:
        """Read, check, pay, write: one customer's request."""
        asked = time.monotonic()
        async with self._guard(f"article:{article}"):
            self._waited(asked)
            stock = self._shop.stock(article)
            if stock > 0:
                await asyncio.sleep(PAYMENT)
                self._shop.sell(article, stock - 1)

    async def page(self) -> str:
        """Reads the cache. A request that finds it empty computes the page, unless another has done so meanwhile."""
        found = self._shop.cached(PAGE)
        if found is not None:
            return found
        asked = time.monotonic()
        async with self._guard(PAGE):
            self._waited(asked)
            found = self._shop.cached(PAGE)
            if found is None:
                await asyncio.sleep(COMPUTATION)
                found = f"computed by service {self._number}"
                self._shop.store(PAGE, found)
        return found

    def _waited(self, since: float) -> None:
        self.shift.longest_wait = max(self.shift.longest_wait, time.monotonic() - since)

    async def serve(self, count: int, tasks: int, request: Callable[[], Awaitable[object]]) -> None:
        """`count` requests by `tasks` customers; each customer sends the next request after its answer."""
        left = count

        async def customer() -> None:
            nonlocal left
            while left:
                left -= 1
                await asyncio.sleep(0)  # the next request comes from the network
                await request()
                self._progress[self._number] += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(customer())


def work(
    number: int,
    plan: Plan,
    mode: Mode,
    url: str,
    database: Path,
    progress: MutableSequence[int],
    gate: Gate,
    outbox: Outbox,
) -> None:
    """A whole process."""
    outbox.send(asyncio.run(_work(number, plan, mode, url, database, progress, gate)))


async def _work(
    number: int, plan: Plan, mode: Mode, url: str, database: Path, progress: MutableSequence[int], gate: Gate
) -> Shift:
    shop = Shop(database)
    dice = random.Random(number)
    async with guards(mode, url) as guard:
        service = Service(shop, guard, progress, number)
        gate.wait(60)
        service.shift.sale_began = time.monotonic()
        await service.serve(
            _share(plan.requests, plan.services, number),
            plan.tasks,
            lambda: service.buy(dice.randrange(plan.articles)),
        )
        service.shift.sale_ended = time.monotonic()
        await asyncio.to_thread(gate.wait, 60)
        await service.serve(_share(plan.asks, plan.services, number), plan.tasks, service.page)
    shop.close()
    return service.shift


def _share(whole: int, parts: int, number: int) -> int:
    return whole // parts + (number < whole % parts)
