"""Five nodes: the pair, the rate from one process, and what one bad node adds to an acquire.

All five servers are on one core and the client on another, so that the nodes' work is done by turns: five machines
would be quicker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.drills.quorum import Acquires
from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.rows.pair import both_forms, cost
from bench.servers import QuorumNodes, Server
from bench.stats import median, percentile
from bench.targets import Better
from bench.worker_process import Worker

PEERS = ("redlock_ng", "redlock_py", "pottery")
NEW = "holdtight, five nodes, new names"
LIMIT = 12.0  # seconds after which a peer's acquire with a bad node has taken long enough


def pair(bench: Bench) -> Outcome:
    outcome = Outcome()
    cpu = bench.across_cores()
    with QuorumNodes(bench.flavour) as nodes:
        nodes.pin(bench.cpus.server)
        with (
            bench.enlist(("holdtight", "asleep"), cpu=cpu) as single,
            bench.enlist(("five_floor", "five", "five_asleep", *PEERS), cpu=cpu, url=nodes.url) as by_variant,
        ):
            everyone = {**by_variant, **single}
            title = "five-node pair; holdtight: on one node"
            for form, medians in both_forms(bench, outcome, everyone, "across", title):
                _compare(bench, outcome, f"quorum.floor{form}", medians, "five", "five_floor")
                found = [name for name in PEERS if name in medians]
                if "five" in medians and found:
                    fastest = min(found, key=lambda name: median(medians[name]))
                    outcome.compare(f"quorum.peer{form}", medians[fastest], medians["five"])
                else:
                    outcome.missing[f"quorum.peer{form}"] = bench.why_absent("five", *PEERS)
            for form, words, fresh in (("", "same names", False), (".new", "new names", True)):
                costs = _costs(bench, everyone, nodes, fresh)
                clients = {name: [client for client, _ in rounds] for name, rounds in costs.items()}
                servers = {name: [server for _, server in rounds] for name, rounds in costs.items()}
                _compare(bench, outcome, f"quorum.client{form}", clients, "five_asleep", "five_floor")
                _compare(bench, outcome, f"quorum.server{form}", servers, "five_asleep", "asleep")
                outcome.rounds[f"costs{form}"] = {"client µs a pair": clients, "servers µs a pair": servers}
                bars = tuple(Bar(name, median(rounds)) for name, rounds in clients.items())
                title = f"pair on five nodes, client processor time, {words}"
                outcome.charts.append(Chart(title, "µs", Better.LOWER, bars))
    _tell_of_absent(bench, outcome)
    return outcome


def _compare(bench: Bench, outcome: Outcome, key: str, rounds: dict[str, list[float]], ours: str, theirs: str) -> None:
    if ours in rounds and theirs in rounds:
        outcome.compare(key, rounds[ours], rounds[theirs])
    else:
        outcome.missing[key] = bench.why_absent(ours, theirs)


def _costs(
    bench: Bench, by_variant: dict[str, list[Worker]], nodes: QuorumNodes, fresh: bool
) -> dict[str, list[tuple[float, float]]]:
    """The processor time of a pair in µs, the client's and that of all servers together. Nobody spins."""
    where: dict[str, Server | QuorumNodes] = {"five_asleep": nodes, "five_floor": nodes, "asleep": bench.server}
    return bench.take_turns(
        {
            name: partial(cost, bench, by_variant[name][0], servers, "free.cost_of_threads", count=1, fresh=fresh)
            for name, servers in where.items()
            if name in by_variant
        }
    )


def fleet(bench: Bench) -> Outcome:
    """64 asyncio tasks; a peer that has no asyncio gets 16 threads. Peers keep nothing by name: they get the same
    names, and holdtight these and new ones."""
    outcome = Outcome()
    seconds = bench.effort.seconds
    tasks, threads = {"count": 64, "seconds": seconds}, {"count": 16, "seconds": seconds}
    with QuorumNodes(bench.flavour) as nodes:
        nodes.pin(bench.cpus.server)
        with bench.enlist(("five", *PEERS), cpu=bench.cpus.clients, url=nodes.url) as by_variant:
            players = {
                name: partial(workers[0].do, "free.threads", **threads)
                if name == "redlock_py"
                else partial(workers[0].do, "free.tasks", **tasks)
                for name, workers in by_variant.items()
            }
            if "five" in by_variant:
                players[NEW] = partial(by_variant["five"][0].do, "free.cost_of_tasks", **tasks, fresh=True)
            raw = bench.take_turns(players)
    rates = {name: [2 * each["pairs"] / each["seconds"] for each in rounds] for name, rounds in raw.items()}
    bars = tuple(Bar(name, median(rounds)) for name, rounds in rates.items())
    outcome.charts.append(Chart("five nodes, 64 tasks", "operations/s", Better.HIGHER, bars))
    outcome.rounds = dict(rates)
    for key, name in (("fleet", "five"), ("fleet.new", NEW)):
        if name in rates:
            outcome.figures[key] = median(rates[name])
        else:
            outcome.missing[key] = bench.why_absent("five")
    _tell_of_absent(bench, outcome)
    return outcome


Bad = tuple[Acquires, Acquires]


def bad_node(bench: Bench) -> Outcome:
    """Acquires before and after the first node goes bad; new nodes and a new client each time.

    The client is not told, so that what noticing costs is in it.
    """
    outcome = Outcome()
    harms: tuple[tuple[str, Callable[[Server], None]], ...] = (("hung", Server.hang), ("dead", Server.kill))
    for harm, do in harms:
        ours = bench.take_turns(
            {
                "five": partial(_turn, bench, "five", "quorum.acquires", do),
                "five (asyncio)": partial(_turn, bench, "five", "quorum.async_acquires", do),
            },
            bench.effort.bad_rounds,
        )
        theirs = bench.take_turns({name: partial(_turn, bench, name, "quorum.acquires", do) for name in PEERS}, 1)
        bars: list[Bar] = []
        for name, rounds in {**ours, **theirs}.items():
            well = [median(before["durations"]) / 1e6 for before, _ in rounds]
            bad = [median(after["durations"]) / 1e6 for _, after in rounds]
            tails = [percentile(after["durations"], 0.99) / 1e6 for _, after in rounds]
            worst = max(max(after["durations"]) for _, after in rounds) / 1e6
            bars.append(Bar(name, median(bad), median(tails)))
            outcome.rounds[f"{harm}: {name}"] = {"well ms": well, "bad ms": bad, "p99 ms": tails, "worst ms": worst}
            _tell(outcome, harm, name, rounds)
            if name in ours:
                key = f"bad.{harm}.{'aio' if 'asyncio' in name else 'sync'}"
                outcome.figures[key] = median([b - w for b, w in zip(bad, well, strict=True)])
                outcome.notes.append(f"{key}: the slowest acquire of all took {worst:.2f} ms, p99 {median(tails):.2f}")
        for name, key in (("five", f"bad.{harm}.sync"), ("five (asyncio)", f"bad.{harm}.aio")):
            if name not in ours:
                outcome.missing[key] = bench.why_absent(name)
        outcome.charts.append(Chart(f"acquire, one of five nodes {harm}", "ms", Better.LOWER, tuple(bars)))
    _tell_of_absent(bench, outcome)
    return outcome


def _turn(bench: Bench, variant: str, drill: str, harm: Callable[[Server], None]) -> Bad:
    with QuorumNodes(bench.flavour) as nodes:
        nodes.pin(bench.cpus.server)
        with Worker(variant, nodes.url, bench.cpus.clients) as worker:
            bench.versions[variant] = worker.versions
            before: Acquires = worker.do(drill, seconds=bench.effort.seconds, limit=LIMIT)
            harm(nodes.nodes[0])
            after: Acquires = worker.do(drill, seconds=bench.effort.bad_seconds, limit=LIMIT)
            return before, after


def _tell(outcome: Outcome, harm: str, name: str, rounds: list[Bad]) -> None:
    failed = [said for _, after in rounds for said in after["failed"]]
    count = sum(len(after["durations"]) for _, after in rounds)
    if failed:
        outcome.notes.append(f"{name}, one node {harm}: {len(failed)} of {count} acquires failed ({failed[0]})")
    if any(after["cut"] for _, after in rounds):
        outcome.notes.append(f"{name}, one node {harm}: an acquire or release was cut off after {LIMIT:g} s")


def _tell_of_absent(bench: Bench, outcome: Outcome) -> None:
    outcome.notes += [f"{name} is left out: {bench.absent[name]}" for name in PEERS if name in bench.absent]
