"""The lock service: what a pair costs it, what a waiting client costs it, how soon a waiter is told, and long lists.

Costs are processor time of the instance, next to the library's own and to a bare server of the same make, in turns.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.serving import Process, Wire, bare, library_pairs, pairs, served
from bench.stats import median, percentile
from bench.targets import Better

CONNECTIONS = 64
WAITING = 2000
NAMES = 100
WARM = 50
MANY = 10_000
Async = Callable[[], Coroutine[Any, Any, float]]


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    bench.across_cores()
    url = bench.server.url
    with asyncio.Runner() as runner:
        with served(url) as instance, bare(url) as floor:
            _pair(bench, outcome, runner, instance, floor)
            runner.run(_wakeup(bench, outcome, instance))
        with served(url) as instance, bare(url) as floor:
            runner.run(_waiting(bench, outcome, instance, floor))
        bench.server.clear()
        with served(url) as instance:
            runner.run(_lists(bench, outcome, instance))
    bench.server.clear()
    return outcome


def _pair(bench: Bench, outcome: Outcome, runner: asyncio.Runner, instance: Process, floor: Process) -> None:
    number = max(8, round(60 * bench.effort.seconds))
    players: dict[str, Callable[[], float]] = {
        "service": lambda: runner.run(pairs(instance, CONNECTIONS, number)),
        "bare": lambda: runner.run(pairs(floor, CONNECTIONS, number)),
        "library": lambda: runner.run(library_pairs(bench.server.url, CONNECTIONS, number)),
    }
    found = bench.take_turns(players)
    outcome.rounds["pair µs"] = {name: [round(each, 1) for each in values] for name, values in found.items()}
    bars = tuple(Bar(name, median(values), ours=name != "bare") for name, values in found.items())
    outcome.charts.append(Chart("processor time of a pair over HTTP, 64 connections", "µs", Better.LOWER, bars))
    outcome.compare("service.pair", found["service"], found["library"])
    outcome.compare("service.bare", found["service"], found["bare"])


async def _wakeup(bench: Bench, outcome: Outcome, instance: Process) -> None:
    from holdtight import AsyncLocks

    dice = random.Random(1)
    holder, waiter = await Wire.open(instance), await Wire.open(instance)
    times: dict[str, list[float]] = {"service": [], "library": []}
    async with AsyncLocks(bench.server.url) as one, AsyncLocks(bench.server.url) as two:
        for turn in range(bench.effort.wakeups // 3):
            held = await holder.ask("acquire", name="bench:wake", ttl=30, request=f"h{turn}")
            waiter.send("acquire", name="bench:wake", ttl=30, wait=20, request=f"w{turn}")
            await asyncio.sleep(dice.uniform(0.02, 0.06))
            start = time.perf_counter()
            holder.send("release", lease=held["lease"])
            got = await waiter.answer()
            took = time.perf_counter() - start
            await holder.answer()
            await waiter.ask("release", lease=got["lease"])
            lease = await one.lock("wake").acquire()
            waits = asyncio.create_task(two.lock("wake", wait=20).acquire())
            await asyncio.sleep(dice.uniform(0.02, 0.06))
            start = time.perf_counter()
            release = asyncio.create_task(lease.release())
            other = await waits
            if turn > 2:
                times["service"].append(1000 * took)
                times["library"].append(1000 * (time.perf_counter() - start))
            await release
            await other.release()
    bars = tuple(Bar(name, median(each), percentile(each, 0.99), ours=True) for name, each in times.items())
    outcome.charts.append(Chart("wake-up after release, over HTTP and not", "ms", Better.LOWER, bars))
    outcome.figures["service.wakeup"] = median(times["service"]) / median(times["library"])
    for wire in (holder, waiter):
        wire.close()


async def _waiting(bench: Bench, outcome: Outcome, instance: Process, floor: Process) -> None:
    async def many(to: Process, verb: str, **body: Any) -> list[Wire]:
        wires: list[Wire] = []
        for at in range(WAITING):
            wire = await Wire.open(to)
            wire.send(verb, name=body["name"].replace("#", str(at % NAMES)), **_more(verb, at))
            wires.append(wire)
            if at % 50 == 49:
                await asyncio.sleep(0.02)
        await asyncio.sleep(2.0)
        return wires

    first = [await Wire.open(floor) for _ in range(WARM)]  # the first of everything, at both alike
    for wire in first:
        wire.send("open", name="#")
    await asyncio.sleep(2.0)
    before = floor.kilobytes()
    open_ = await many(floor, "open", name="#")
    each_open = (floor.kilobytes() - before) / WAITING
    holder = await Wire.open(instance)
    for at in range(NAMES):
        await holder.ask("acquire", name=f"bench:{at}", ttl=300)
    warm = [await Wire.open(instance) for _ in range(WARM)]
    for at, wire in enumerate(warm):
        wire.send("acquire", name=f"bench:{at}", ttl=30, wait=1, request=f"warm{at}")
    await asyncio.sleep(2.0)
    before = instance.kilobytes()
    waiting = await many(instance, "acquire", name="bench:#")
    each_waiting = (instance.kilobytes() - before) / WAITING
    start, used = time.perf_counter(), instance.seconds()
    await asyncio.sleep(bench.effort.hold_seconds / 2)
    share = 100 * (instance.seconds() - used) / (time.perf_counter() - start)
    outcome.figures |= {
        "service.waiting.each": each_waiting,
        "service.waiting": each_waiting / each_open,
        "service.waiting.cpu": share,
    }
    outcome.rounds["waiting"] = {"open KiB": round(each_open, 1), "waiting KiB": round(each_waiting, 1)}
    for wire in (*first, *open_, *warm, *waiting, holder):
        wire.close()


def _more(verb: str, at: int) -> dict[str, Any]:
    return {"ttl": 30, "wait": 50, "request": f"r{at}"} if verb == "acquire" else {}


async def _lists(bench: Bench, outcome: Outcome, instance: Process) -> None:
    from holdtight import AsyncLocks

    wire, other = await Wire.open(instance), await Wire.open(instance)

    async def latencies(number: int) -> list[float]:
        found: list[float] = []
        for at in range(number):
            start = time.perf_counter()
            held = await other.ask("acquire", name=f"bench:own:{at}", ttl=30)
            found.append(1000 * (time.perf_counter() - start))
            await other.ask("release", lease=held["lease"])
        return found

    async with AsyncLocks(bench.server.url, ttl=600) as locks:
        for at in range(0, MANY, 500):
            names = [f"bench:many:{each}" for each in range(at, at + 500)]
            await asyncio.gather(*[locks.lock(name).acquire() for name in names])
        number = bench.effort.wakeups * 2
        quiet = await latencies(number)
        start = time.perf_counter()
        first = await wire.look("/v1/locks")
        outcome.figures["service.list.first"] = time.perf_counter() - start
        if first["total"] != MANY:
            raise RuntimeError(f"the list has {first['total']} locks")
        later: list[float] = []
        for _ in range(9):
            start = time.perf_counter()
            await wire.look("/v1/locks?sort=age")
            later.append(1000 * (time.perf_counter() - start))
        over = asyncio.Event()

        async def look() -> None:
            while not over.is_set():
                await wire.look("/v1/locks")
                await asyncio.sleep(0.2)

        looking = asyncio.create_task(look())
        busy = await latencies(number)
        over.set()
        await looking
    outcome.figures["service.list.later"] = median(later)
    outcome.figures["service.list.others"] = percentile(busy, 0.99) / percentile(quiet, 0.99)
    outcome.rounds["list ms"] = {"later": [round(each, 1) for each in later]}
    wire.close()
    other.close()
