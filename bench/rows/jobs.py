"""The ready-made jobs beside the same by hand, and values of single_flight beside caches.

Where a row compares two ways within one process, they take turns there, and processor time counts: on a busy machine
the clock on the wall says nothing about a few microseconds.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from functools import partial
from typing import Any

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.rows.pair import measure
from bench.stats import median
from bench.targets import Better
from bench.wire import Monitor, count_requests
from bench.worker_process import Worker, WorkerFailed

HITS = ("flight_floor", "holdtight", "dogpile")
TASKS = ("holdtight", "aiocache", "cashews")
PROCESSES, REQUESTS = 4, 25_000
COMPUTING = 0.3
CLIENTS = 100
TTL = 2.0


def by_hand(bench: Bench) -> Outcome:
    """`synchronized`, a skipped `once` and `under`, each next to what a user would write without."""
    outcome = Outcome()
    keys = ("jobs.synchronized", "jobs.once", "jobs.under")
    try:
        # Without a look before sleep, whose processor time is that of the wait.
        with bench.enlist(("asleep",), cpu=bench.across_cores()) as by_variant:
            if not by_variant:
                raise WorkerFailed(bench.why_absent("asleep"))
            worker = by_variant["asleep"][0]
            _synchronized(bench, outcome, worker)
            outcome.compare("jobs.once", *_turns(bench, outcome, worker, "jobs.once_skipped", "skipped", "denied"))
            _guard(bench, outcome, worker)
    except WorkerFailed as error:
        outcome.missing = {key: str(error) for key in keys if key not in outcome.figures}
    return outcome


def _synchronized(bench: Bench, outcome: Outcome, worker: Worker) -> None:
    """A microsecond or two of sixty: only the differences within turns show it."""
    rounds = [worker.do("jobs.synchronized", seconds=4 * bench.effort.seconds) for _ in range(bench.effort.rounds)]
    beyond = [median(each["beyond"]) for each in rounds]
    outcome.figures["jobs.synchronized"] = median(beyond)
    outcome.rounds["jobs.synchronized"] = {
        "beyond": beyond,
        **{name: [median(each[name]) for each in rounds] for name in ("decorated", "by hand")},
    }


def _turns(
    bench: Bench, outcome: Outcome, worker: Worker, drill: str, ours: str, theirs: str, **more: str
) -> tuple[list[float], list[float]]:
    """The medians of both ways, round by round."""
    rounds = [worker.do(drill, seconds=2 * bench.effort.seconds, **more) for _ in range(bench.effort.rounds)]
    title = " ".join((drill, *more.values()))
    outcome.rounds[title] = {name: [median(each[name]) for each in rounds] for name in (ours, theirs)}
    return outcome.rounds[title][ours], outcome.rounds[title][theirs]


def _guard(bench: Bench, outcome: Outcome, worker: Worker) -> None:
    """The target is PostgreSQL's. SQLite, without a server and without a disk, shows what a guard itself costs."""
    from tests.fencing.databases import Postgres

    drill = "guard.transactions", "under", "by hand"
    with tempfile.TemporaryDirectory() as folder:
        times = _turns(bench, outcome, worker, *drill, database="sqlite", folder=folder)
    under, by_hand = (median(each) for each in times)
    outcome.notes.append(f"under on SQLite in memory: {under:.0f} µs a transaction, by hand {by_hand:.0f} µs")
    if why := Postgres.missing():
        outcome.missing["jobs.under"] = why
        return
    with Postgres() as postgres:
        times = _turns(bench, outcome, worker, *drill, database="postgresql", folder=str(postgres.folder))
        outcome.compare("jobs.under", *times)


def flight(bench: Bench) -> Outcome:
    """Hits: one thread next to a bare socket, and tasks next to other caches."""
    outcome = Outcome()
    for place, title, cpu in bench.both_places("flight hit"):
        with bench.enlist(HITS, cpu=cpu) as by_variant:
            medians = measure(bench, outcome, by_variant, "jobs.hits", place, title)
        key = f"flight.{place}"
        if "holdtight" in medians and "flight_floor" in medians:
            outcome.compare(key, medians["holdtight"], medians["flight_floor"])
        else:
            outcome.missing[key] = bench.why_absent("holdtight", "flight_floor")
    with bench.enlist(TASKS, cpu=bench.across_cores()) as by_variant:
        drill = {"tasks": 64, "names": 500, "seconds": bench.effort.seconds}
        raw = bench.take_turns(
            {name: partial(each[0].do, "jobs.hits_of_tasks", **drill) for name, each in by_variant.items()}
        )
    rates = {name: [each["hits"] / each["processor"] for each in rounds] for name, rounds in raw.items()}
    bars = tuple(Bar(name, median(rounds)) for name, rounds in rates.items())
    outcome.charts.append(
        Chart("flight hits, 64 tasks, 500 names", "per second of processor time", Better.HIGHER, bars)
    )
    outcome.rounds["tasks"] = raw
    walls = {name: median([each["hits"] / each["seconds"] for each in rounds]) for name, rounds in raw.items()}
    figures = ", ".join(f"{name} {rate:,.0f}" for name, rate in walls.items())
    outcome.notes.append(f"flight hits of 64 tasks per second on the wall, busy machine or not: {figures}")
    for peer in ("aiocache", "cashews"):
        if "holdtight" in rates and peer in rates:
            outcome.compare(f"flight.{peer}", rates["holdtight"], rates[peer])
        else:
            outcome.missing[f"flight.{peer}"] = bench.why_absent("holdtight", peer)
    return outcome


def stampede(bench: Bench) -> Outcome:
    """A cold key: many requests of four processes; and how soon waiting clients have a value that has landed."""
    outcome = Outcome()
    keys = ("stampede.computed", "stampede.time", "stampede.requests", "stampede.clients")
    try:
        with bench.enlist(("holdtight",), cpu=None, each=PROCESSES) as by_variant:
            if not by_variant:
                raise WorkerFailed(bench.why_absent("holdtight"))
            workers = by_variant["holdtight"]
            rounds: list[dict[str, Any]] = []
            for number in range(max(3, bench.effort.rounds // 2)):
                local = _rush(workers, f"rush:{number}", local=True)
                log = Monitor(bench.server.port)
                time.sleep(0.1)
                mark = log.cut()
                flights = _rush(workers, f"rush:{number}", local=False)
                time.sleep(0.2)
                requests = count_requests(log.between(mark, log.cut()))
                log.close()
                rounds.append({"local": local, "flights": flights, "requests": dict(requests)})
            landed = workers[0].do("jobs.landing", clients=CLIENTS, times=max(3, bench.effort.rounds))
    except WorkerFailed as error:
        outcome.missing = dict.fromkeys(keys, str(error))
        return outcome
    spent = {how: [sum(each["processor"] for each in found[how]) for found in rounds] for how in ("local", "flights")}
    outcome.compare("stampede.time", spent["flights"], spent["local"])
    walls = {how: median([max(each["seconds"] for each in found[how]) for found in rounds]) for how in spent}
    outcome.notes.append(
        f"{PROCESSES} × {REQUESTS:,} requests on a cold key: {walls['flights']:.2f} s on the wall, "
        f"{median(spent['flights']):.2f} s of processor time; awaiting one local future: {walls['local']:.2f} s, "
        f"{median(spent['local']):.2f} s. The value takes {COMPUTING} s to compute"
    )
    outcome.figures["stampede.computed"] = max(sum(each["computed"] for each in found["flights"]) for found in rounds)
    outcome.figures["stampede.requests"] = max(sum(found["requests"].values()) for found in rounds)
    outcome.figures["stampede.clients"] = median(landed)
    outcome.rounds = {"rush": rounds, "landed ms": landed}
    return outcome


def _rush(workers: list[Worker], name: str, *, local: bool) -> list[dict[str, Any]]:
    for worker in workers:
        worker.send("jobs.rush", name=name, requests=REQUESTS, computing=COMPUTING, local=local)
    return [worker.receive() for worker in workers]


def leader(bench: Bench) -> Outcome:
    """From the end of a leader until the next term has begun."""
    outcome = Outcome()
    killed: list[float] = []
    try:
        for number in range(max(3, bench.effort.rounds // 2)):
            with bench.enlist(("holdtight",), cpu=bench.across_cores(), each=2) as by_variant:
                if not by_variant:
                    raise WorkerFailed(bench.why_absent("holdtight"))
                first, second = by_variant["holdtight"]
                if not number:
                    resigned = second.do("leading.resigned", times=bench.effort.wakeups)
                killed.append(_killed(bench, first, second, f"leader:{number}"))
    except WorkerFailed as error:
        outcome.missing = dict.fromkeys(("leader.killed", "leader.resigned"), str(error))
        return outcome
    outcome.figures["leader.killed"] = max(killed) - TTL
    outcome.figures["leader.resigned"] = median(resigned)
    outcome.rounds = {"killed s": killed, "resigned ms": resigned}
    return outcome


def _killed(bench: Bench, first: Worker, second: Worker, name: str) -> float:
    first.do("leading.lead_until_killed", name=name, ttl=TTL)
    second.send("leading.follow", name=name, ttl=TTL)
    with Worker("holdtight", bench.server.url) as third:
        while not third.do("leading.waiting", name=name):
            time.sleep(0.01)
    end = time.clock_gettime(time.CLOCK_MONOTONIC)
    os.kill(first.pid, signal.SIGKILL)
    return float(second.receive()) - end
