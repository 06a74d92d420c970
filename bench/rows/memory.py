"""What a held lock costs on the server: growth of `used_memory`, which also counts the expiry entry."""

from __future__ import annotations

from bench.results import Bar, Chart, Outcome
from bench.rounds import Bench
from bench.servers import Server
from bench.targets import Better
from bench.venvs import CannotInstall
from bench.worker_process import Worker, WorkerFailed

VARIANTS = ("holdtight", "redis_py")


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    count = bench.effort.memory_locks
    each: dict[str, float] = {}
    for name in VARIANTS:
        try:
            each[name] = _growth(bench, name, count) / count
        except (WorkerFailed, CannotInstall) as error:
            bench.drop(name, error)
    outcome.charts.append(
        Chart(
            "server memory per held lock",
            "bytes",
            Better.LOWER,
            tuple(Bar(name, size) for name, size in each.items()),
        )
    )
    outcome.rounds = {"locks": count, "bytes each": each}
    if len(each) == len(VARIANTS):
        outcome.figures["memory"] = each["holdtight"] - each["redis_py"]
    else:
        outcome.missing["memory"] = bench.why_absent(*VARIANTS)
    return outcome


def _growth(bench: Bench, variant: str, count: int) -> int:
    """On a server of its own: what others left in its buffers and tables must not count for us."""
    with Server(bench.flavour) as server, Worker(variant, server.url) as worker:
        bench.versions[variant] = worker.versions
        # Once with few: whatever is allocated once, for connections and scripts, is there then.
        worker.do("free.hold", count=100, ttl=600)
        server.clear()
        before = server.connection.used_memory()
        worker.do("free.hold", count=count, ttl=600)
        return server.connection.used_memory() - before
