"""The ready-made jobs, each beside the same thing by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter, perf_counter_ns, process_time
from typing import Any, TypedDict

from bench.variants import Variant

VALUE = {"id": 7, "title": "a report", "rows": [{"name": f"row {n}", "amount": n * 1.5} for n in range(5)]}
NAMES = 64
CHUNK = 50


def synchronized(variant: Variant, *, seconds: float) -> dict[str, list[float]]:
    """Microseconds of processor time a call: decorated, and the same block by hand, in turns. In memory, where nothing
    hides what the decorator itself costs."""
    from holdtight import Locks

    with Locks("memory://") as locks:
        return _synchronized(locks, seconds)


def _synchronized(locks: Any, seconds: float) -> dict[str, list[float]]:
    def body(order_id: int) -> int:
        return order_id

    @locks.synchronized("order:{order_id}", ttl=30)  # type: ignore[untyped-decorator]
    def decorated(order_id: int) -> int:
        return order_id

    def by_hand(order_id: int) -> int:
        with locks.lock(f"order:{order_id}", ttl=30):
            return body(order_id)

    return _in_turns({"decorated": decorated, "by hand": by_hand}, seconds)


def once_skipped(variant: Variant, *, seconds: float) -> dict[str, list[float]]:
    """The same for a call that is skipped, and for a try_acquire that is denied."""
    from bench.variants.holdtight import Holdtight
    from holdtight import Locks

    assert isinstance(variant, Holdtight)
    locks = variant.locks

    @locks.once("done:{number}", at_least=600)
    def job(number: int) -> int:
        return number

    with Locks(variant.url) as other:
        leases = [other.lock(f"held:{number}", ttl=600).acquire() for number in range(NAMES)]
        for number in range(NAMES):
            job(number)

        def denied(number: int) -> None:
            if locks.lock(f"held:{number}", ttl=30).try_acquire() is not None:
                raise RuntimeError("it is held")

        def skipped(number: int) -> None:
            if job(number):
                raise RuntimeError("it has run")

        times = _in_turns({"skipped": skipped, "denied": denied}, seconds)
        for lease in leases:
            lease.release()
    return times


def _in_turns(calls: dict[str, Callable[[int], object]], seconds: float) -> dict[str, list[float]]:
    """The quickest quarter of each: what others do on this machine only adds to it. `beyond`: how much more the first
    took than the second, turn by turn, with the one and the other at the beginning."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls.items())
    for call in calls.values():
        for number in range(NAMES):
            call(number)
    until = perf_counter() + seconds
    while perf_counter() < until:
        for name, call in order:
            start = process_time()
            for number in range(CHUNK):
                call(number)
            found[name].append((process_time() - start) / CHUNK * 1e6)
        order.reverse()
    beyond = [one - other for one, other in zip(*found.values(), strict=True)]
    return {"beyond": beyond, **{name: sorted(times)[: len(times) // 4 + 1] for name, times in found.items()}}


def hits(variant: Any, *, seconds: float) -> list[int]:
    """One thread, one hit after the other: how long each took."""
    variant.store(VALUE, NAMES)
    hit, clock = variant.hit, perf_counter_ns
    if hit(3) != VALUE:
        raise RuntimeError("the value is another one")
    durations: list[int] = []
    until = perf_counter() + seconds
    while perf_counter() < until:
        for number in range(NAMES):
            start = clock()
            hit(number)
            durations.append(clock() - start)
    return durations


class Rate(TypedDict):
    hits: int
    seconds: float
    processor: float


def hits_of_tasks(variant: Any, *, tasks: int, names: int, seconds: float) -> Rate:
    """Many asyncio tasks, which take the names in turn, for so many seconds of processor time: on a busy machine a
    second on the wall may have room for a few hits only."""
    return asyncio.run(_hits_of_tasks(variant, tasks, names, seconds))


async def _hits_of_tasks(variant: Any, tasks: int, names: int, seconds: float) -> Rate:
    async with variant.flights(VALUE) as report:
        for number in range(names):
            await report(number)
        if await report(3) != VALUE:
            raise RuntimeError("the value is another one")

        async def ask(number: int) -> int:
            done = 0
            while process_time() < until:
                await report(number % names)
                number, done = number + tasks, done + 1
            return done

        start, used = perf_counter(), process_time()
        until = used + seconds
        done = sum(await asyncio.gather(*map(ask, range(tasks))))
        return Rate(hits=done, seconds=perf_counter() - start, processor=process_time() - used)


class Rush(TypedDict):
    seconds: float
    processor: float
    computed: int


def rush(variant: Any, *, name: str, requests: int, computing: float, local: bool) -> Rush:
    """Many requests on a cold key at once; or as many tasks that await one future of this process."""
    return asyncio.run(_rush(variant.url, name, requests, computing, local))


async def _rush(url: str, name: str, requests: int, computing: float, local: bool) -> Rush:
    from holdtight import AsyncLocks

    computed = 0
    async with AsyncLocks(url) as locks:
        await locks.lock("connected").locked()

        async def compute() -> int:
            nonlocal computed
            computed += 1
            await asyncio.sleep(computing)
            return 7

        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def of_a_future() -> int:
            return await answer

        flight = locks.single_flight(name, ttl=60)(compute)
        start, used = perf_counter(), process_time()
        if local:
            asyncio.get_running_loop().call_later(computing, answer.set_result, 7)
        ask = of_a_future if local else flight
        found = await asyncio.gather(*[ask() for _ in range(requests)])
        took = Rush(seconds=perf_counter() - start, processor=process_time() - used, computed=computed)
        if set(found) != {7}:
            raise RuntimeError(f"answers are {set(found)}")
        return took


def landing(variant: Any, *, clients: int, times: int) -> list[float]:
    """Milliseconds from the end of the computation until so many waiting clients have the value."""
    return asyncio.run(_landing(variant.url, clients, times))


async def _landing(url: str, clients: int, times: int) -> list[float]:
    from holdtight import AsyncLocks

    found: list[float] = []
    all_of_them = [AsyncLocks(url) for _ in range(clients + 1)]
    for number in range(times):
        name = f"landing:{number}"
        go, landed = asyncio.Event(), 0.0

        async def compute(go: asyncio.Event = go) -> int:
            nonlocal landed
            await go.wait()
            landed = perf_counter()
            return 7

        async def none() -> int:
            raise RuntimeError("computed twice")

        first, *others = all_of_them
        asking = [asyncio.create_task(first.single_flight(name, ttl=60)(compute)())]
        while not (await first.inspect(name)).locked:
            await asyncio.sleep(0.005)
        asking += [asyncio.create_task(each.single_flight(name, ttl=60)(none)()) for each in others]
        while (await first.inspect(name)).waiting < clients:
            await asyncio.sleep(0.01)
        go.set()
        await asyncio.gather(*asking)
        found.append((perf_counter() - landed) * 1000)
    for each in all_of_them:
        await each.aclose()
    return found
