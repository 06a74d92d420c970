"""Free locks: no other client wants the name."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from time import perf_counter, perf_counter_ns, process_time
from typing import Any, TypedDict, cast

from bench.variants import Renamer, Rover, Variant


class Rate(TypedDict):
    pairs: int
    seconds: float
    durations: list[int]


NAMES = 64  # taken in turn
_numbers = itertools.count()


def pairs(variant: Variant, *, seconds: float) -> list[int]:
    """One thread, one pair after the other: how long each took."""
    names = [f"pair:{number}" for number in range(NAMES)]
    for name in names:
        variant.pair(name)
    return _pairs_until(variant, names, perf_counter() + seconds)


def fresh_pairs(variant: Variant, *, seconds: float) -> list[int]:
    """The same, with a new name each time, so that nothing cached per name helps."""
    durations: list[int] = []
    until = perf_counter() + seconds
    while perf_counter() < until:
        _pairs(variant, [f"fresh:{number}" for number in itertools.islice(_numbers, NAMES)], durations)
    return durations


def _pairs_until(variant: Variant, names: list[str], until: float) -> list[int]:
    durations: list[int] = []
    while perf_counter() < until:
        _pairs(variant, names, durations)
    return durations


def _pairs(variant: Variant, names: list[str], durations: list[int]) -> None:
    pair, clock, keep = variant.pair, perf_counter_ns, durations.append
    for name in names:
        start = clock()
        pair(name)
        keep(clock() - start)


def threads(variant: Variant, *, count: int, seconds: float) -> Rate:
    """Many threads, a name each."""
    kept: list[list[int]] = [[] for _ in range(count)]
    until = 0.0
    failures: list[BaseException] = []

    def begin() -> None:
        nonlocal until
        until = perf_counter() + seconds

    ready = threading.Barrier(count + 1, action=begin)

    def run(number: int) -> None:
        try:
            name = f"thread:{number}"
            variant.pair(name)
            ready.wait()
            kept[number] = _pairs_until(variant, [name], until)
        except BaseException as error:
            failures.append(error)
            ready.abort()

    team = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for member in team:
        member.start()
    try:
        ready.wait()
    except threading.BrokenBarrierError:
        pass
    start = perf_counter()
    for member in team:
        member.join()
    if failures:
        raise failures[0]
    durations = [duration for part in kept for duration in part]
    return Rate(pairs=len(durations), seconds=perf_counter() - start, durations=durations)


def tasks(variant: Variant, *, count: int, seconds: float) -> Rate:
    """Many asyncio tasks, a name each."""
    return asyncio.run(_tasks(variant, count, seconds))


async def _tasks(variant: Variant, count: int, seconds: float) -> Rate:
    names = [f"task:{number}" for number in range(count)]
    async with variant.runner(count) as runner:
        await asyncio.gather(*(runner.repeat(name, perf_counter() + 0.02) for name in names))
        start = perf_counter()
        done = await asyncio.gather(*(runner.repeat(name, start + seconds) for name in names))
        return Rate(pairs=sum(done), seconds=perf_counter() - start, durations=[])


def hold(variant: Variant, *, count: int, ttl: float) -> None:
    """Take many, with names of 16 bytes, and keep them."""
    variant.hold([f"lock:{number:011d}" for number in range(count)], ttl)


class Cost(TypedDict):
    pairs: int
    seconds: float
    processor: float
    """Seconds of processor time of this process, per pair."""
    before: int
    """How many pairs warmed up: only the servers' time has them."""


def cost_of_threads(variant: Variant, *, count: int, seconds: float, fresh: bool) -> Cost:
    """Many threads: each has a name of its own, or takes a new name each time."""
    done = [0] * count
    until = 0.0
    drill = next(_numbers)  # a name of an earlier drill would not be new: the server may still know its fence

    def begin() -> None:
        nonlocal until
        until = perf_counter() + seconds

    ready = threading.Barrier(count + 1, action=begin)

    def run(number: int) -> None:
        pair, mine = variant.pair, itertools.count()
        for _ in range(2):
            pair(f"cost:{number}")
        ready.wait()
        while perf_counter() < until:
            pair(f"order:{drill}:{number}:{next(mine)}" if fresh else f"cost:{number}")
            done[number] += 1

    team = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for member in team:
        member.start()
    ready.wait()
    start, used = perf_counter(), process_time()
    for member in team:
        member.join()
    return _cost(sum(done), start, used, 2 * count)


def cost_of_tasks(variant: Variant, *, count: int, seconds: float, fresh: bool) -> Cost:
    """The same with asyncio tasks."""
    return asyncio.run(_cost_of_tasks(variant, count, seconds, fresh))


async def _cost_of_tasks(variant: Variant, count: int, seconds: float, fresh: bool) -> Cost:
    drill = next(_numbers)
    names = [f"cost:{drill}:{number}" if fresh else f"cost:{number}" for number in range(count)]
    async with variant.runner(count) as runner:
        before = await asyncio.gather(*(runner.repeat(name, perf_counter() + 0.02) for name in names))
        start, used = perf_counter(), process_time()
        until = start + seconds
        repeat = cast(Renamer, runner).renamed if fresh else runner.repeat
        done = await asyncio.gather(*(repeat(name, until) for name in names))
        return _cost(sum(done), start, used, sum(before))


def cost_of_pairs(variant: Variant, *, seconds: float) -> Cost:
    """One thread that takes the same names in turn."""
    names = [f"pair:{number}" for number in range(NAMES)]
    _pairs(variant, names, [])
    start, used = perf_counter(), process_time()
    durations = _pairs_until(variant, names, start + seconds)
    return _cost(len(durations), start, used, NAMES)


def cost_over_names(variant: Variant, *, tasks: int, names: int, seconds: float) -> Cost:
    """Asyncio tasks that go over many names: each has a part of them for itself."""
    return asyncio.run(_cost_over_names(variant, tasks, names, seconds))


async def _cost_over_names(variant: Variant, tasks: int, names: int, seconds: float) -> Cost:
    async with variant.runner(tasks) as runner:
        parts = [itertools.cycle([f"name:{each}" for each in range(task, names, tasks)]) for task in range(tasks)]
        going = cast(Rover, runner).among
        before = await asyncio.gather(*(going(part, perf_counter() + 0.05) for part in parts))
        start, used = perf_counter(), process_time()
        done = await asyncio.gather(*(going(part, start + seconds) for part in parts))
        return _cost(sum(done), start, used, sum(before))


def cost_of_processes(variant: Variant, *, count: int, seconds: float, fresh: bool) -> Cost:
    """Forked workers that inherit the client, as those of gunicorn with `--preload` do; one thread each."""
    variant.pair("cost:parent")
    start = perf_counter()
    until = start + seconds
    drill = next(_numbers)
    workers = [_forked(variant, f"{drill}:{number}" if fresh else f"{number}", until, fresh) for number in range(count)]
    told = []
    for pid, answers in workers:
        with open(answers, encoding="ascii") as pipe:
            told.append(pipe.read().split())
        if os.waitpid(pid, 0)[1]:
            raise RuntimeError("a forked worker failed")
    pairs = sum(int(done) for done, _ in told)
    used = sum(float(processor) for _, processor in told)
    return Cost(pairs=pairs, seconds=perf_counter() - start, processor=used / max(1, pairs), before=1)


def _forked(variant: Variant, number: str, until: float, fresh: bool) -> tuple[int, int]:
    answers, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        return pid, answers
    failed = 1
    try:
        done, start = 0, process_time()
        while perf_counter() < until:
            variant.pair(f"order:{number}:{done}" if fresh else f"cost:{number}")
            done += 1
        os.write(tell, f"{done} {process_time() - start}".encode())
        failed = 0
    finally:
        os._exit(failed)


def turns_of_a_task(variant: Variant, *, seconds: float) -> float:
    """How often the event loop asks the operating system for events, per request of one task."""
    return asyncio.run(_turns_of_a_task(variant, seconds))


async def _turns_of_a_task(variant: Variant, seconds: float) -> float:
    selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    select, turns = selector.select, itertools.count()

    def counted(timeout: float | None = None) -> Any:
        next(turns)
        return select(timeout)

    async with variant.runner(1) as runner:
        await runner.repeat("turns", perf_counter() + 0.02)
        selector.select = counted
        done = await runner.repeat("turns", perf_counter() + seconds)
        selector.select = select
    return next(turns) / (2 * done)


def _cost(pairs: int, start: float, used: float, before: int = 0) -> Cost:
    seconds, each = perf_counter() - start, (process_time() - used) / max(1, pairs)
    return Cost(pairs=pairs, seconds=seconds, processor=each, before=before)
