"""A cluster of three masters next to one server.

All servers are on one core and the clients on another, so wall-clock time would measure how many processes share a
core. The row is judged in processor time, of the clients and of all servers, and nobody spins:

- a blocking pair and a hand-over are work that is done in turn, so the sum counts;
- asyncio tasks keep all processes busy at once, so on a machine with a core for each the busiest process sets the
  rate: pairs per second of its processor time.
"""

from __future__ import annotations

from functools import partial

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.rows.hot import PROCESSES, Round, contend
from bench.rows.pair import cost
from bench.servers import Server, Shards
from bench.stats import median
from bench.targets import Better
from bench.worker_process import Worker

ONE, THREE = "one server", "three shards"
TASKS = (64, 1024)
NAMES = 10_000
KEYS = ("cluster.pair", *(f"cluster.tasks.{count}" for count in TASKS), "cluster.hot", "cluster.requests")


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    cpu = bench.across_cores()
    with Shards(bench.flavour) as shards:
        shards.pin(bench.cpus.server)
        with (
            bench.enlist(("asleep",), cpu=cpu, each=PROCESSES) as one,
            bench.enlist(("asleep",), cpu=cpu, each=PROCESSES, url=shards.url) as three,
        ):
            if "asleep" not in one or "asleep" not in three:
                outcome.missing.update(dict.fromkeys(KEYS, bench.why_absent("asleep")))
                return outcome
            players = {ONE: (one["asleep"], [bench.server]), THREE: (three["asleep"], shards.nodes)}
            _pair(bench, outcome, players)
            for count in TASKS:
                _tasks(bench, outcome, players, count)
            _hot(bench, outcome, players)
    return outcome


Players = dict[str, tuple[list[Worker], list[Server]]]


class _All:
    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers

    def worked(self) -> float:
        return sum(server.worked() for server in self._servers)


def _pair(bench: Bench, outcome: Outcome, players: Players) -> None:
    costs = bench.take_turns(
        {
            name: partial(cost, bench, workers[0], _All(servers), "free.cost_of_pairs")
            for name, (workers, servers) in players.items()
        }
    )
    sums = {name: [sum(each) for each in rounds] for name, rounds in costs.items()}
    _chart(outcome, "sync pair, processor time of client and servers", "µs", Better.LOWER, sums)
    outcome.rounds["pair: µs of the client, of the servers"] = costs
    _compare(bench, outcome, "cluster.pair", sums)


def _tasks(bench: Bench, outcome: Outcome, players: Players, count: int) -> None:
    def turn(worker: Worker, servers: list[Server]) -> dict[str, float]:
        used = [server.worked() for server in servers]
        found = worker.do("free.cost_over_names", tasks=count, names=NAMES, seconds=bench.effort.seconds)
        pairs = found["pairs"] + found["before"]
        busiest = max(server.worked() - before for server, before in zip(servers, used, strict=True)) / pairs
        return {
            "client": found["processor"] * 1e6,
            "busiest server": busiest * 1e6,
            "pairs/s": found["pairs"] / found["seconds"],
        }

    raw = bench.take_turns({name: partial(turn, workers[0], servers) for name, (workers, servers) in players.items()})
    rates = {
        name: [1e6 / max(each["client"], each["busiest server"]) for each in rounds] for name, rounds in raw.items()
    }
    _chart(outcome, f"{count} tasks, {NAMES:,} names", "pairs a second of the busiest process", Better.HIGHER, rates)
    outcome.rounds[f"tasks.{count}"] = raw
    _compare(bench, outcome, f"cluster.tasks.{count}", rates)


def _hot(bench: Bench, outcome: Outcome, players: Players) -> None:
    rounds: dict[str, list[Round]] = bench.take_turns(
        {name: partial(contend, bench, workers, servers=servers) for name, (workers, servers) in players.items()}
    )
    rates = {name: [1 / each["processor"] for each in found] for name, found in rounds.items()}
    _chart(
        outcome, "hot lock, 64 waiters in 4 processes", "owner changes a second of processor time", Better.HIGHER, rates
    )
    _compare(bench, outcome, "cluster.hot", rates)
    workers, servers = players[THREE]
    counted = contend(bench, workers, servers=servers, monitor=True)
    outcome.rounds["hot"] = {"timed": rounds, "counted": counted}
    if counted["requests"]:
        outcome.figures["cluster.requests"] = sum(counted["requests"].values())
    else:
        outcome.missing["cluster.requests"] = "the lock did not change hands while requests were counted"


def _chart(outcome: Outcome, title: str, unit: str, better: Better, rounds: dict[str, list[float]]) -> None:
    bars = tuple(Bar(name, median(each), ours=True) for name, each in rounds.items())
    outcome.charts.append(Chart(title, unit, better, bars))


def _compare(bench: Bench, outcome: Outcome, key: str, rounds: dict[str, list[float]]) -> None:
    if ONE in rounds and THREE in rounds:
        outcome.compare(key, rounds[THREE], rounds[ONE])
    else:
        outcome.missing[key] = bench.why_absent(ONE, THREE)
