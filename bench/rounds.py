"""Rounds: the variants of a row take turns on one server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from bench.cpus import Cpus
from bench.servers import Server
from bench.venvs import CannotInstall
from bench.worker_process import Worker, WorkerFailed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: `--quick` or the default."""

    rounds: int
    seconds: float
    wakeups: int
    leases_held: int
    hold_seconds: float
    renewal_rounds: int
    memory_locks: int
    queue_waiters: int
    imports: int
    with_pollers: bool
    bad_rounds: int
    bad_seconds: float


FULL = Effort(
    rounds=7,
    seconds=0.8,
    wakeups=600,
    leases_held=100_000,
    hold_seconds=30,
    renewal_rounds=5,
    memory_locks=100_000,
    queue_waiters=10_000,
    imports=21,
    with_pollers=True,
    bad_rounds=3,
    bad_seconds=3.0,
)
QUICK = Effort(
    rounds=3,
    seconds=0.25,
    wakeups=60,
    leases_held=10_000,
    hold_seconds=10,
    renewal_rounds=1,
    memory_locks=10_000,
    queue_waiters=1_000,
    imports=5,
    with_pollers=False,
    bad_rounds=1,
    bad_seconds=1.0,
)


@dataclass(slots=True)
class Bench:
    """All that a row needs to know about this run."""

    flavour: str
    server: Server
    cpus: Cpus
    effort: Effort
    absent: dict[str, str] = field(default_factory=dict[str, str])
    versions: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def across_cores(self) -> int | None:
        """Pins the server; returns the clients' core."""
        self.server.pin(self.cpus.server)
        return self.cpus.clients

    def on_one_core(self) -> int | None:
        self.server.pin(self.cpus.clients)
        return self.cpus.clients

    def both_places(self, what: str) -> Iterator[tuple[str, str, int | None]]:
        """First across cores, then on one: the place's name, a chart's title, and the clients' core."""
        yield "across", f"{what}, across cores", self.across_cores()
        yield "onecore", f"{what}, one core", self.on_one_core()

    @contextmanager
    def enlist(
        self, variants: Sequence[str], *, cpu: int | None, each: int = 1, url: str = ""
    ) -> Iterator[dict[str, list[Worker]]]:
        """`each` workers of every variant that is available; `absent` has the reasons for the others.

        `url` names another server than the one that all rows share.
        """
        with ExitStack() as stack:
            by_variant: dict[str, list[Worker]] = {}
            for variant in variants:
                try:
                    workers = [stack.enter_context(Worker(variant, url or self.server.url, cpu)) for _ in range(each)]
                except (WorkerFailed, CannotInstall) as error:
                    self.drop(variant, error)
                    continue
                by_variant[variant] = workers
                self.versions[variant] = workers[0].versions
            yield by_variant

    def drop(self, variant: str, error: Exception) -> None:
        if self.absent.get(variant) != str(error):
            print(f"{variant} is left out: {error}", file=sys.stderr)
        self.absent[variant] = str(error)

    def take_turns(self, players: Mapping[str, Callable[[], T]], rounds: int = 0) -> dict[str, list[T]]:
        """Every player runs once a round, another one first each round. One that fails loses all its results."""
        results: dict[str, list[T]] = {name: [] for name in players}
        for number in range(rounds or self.effort.rounds):
            names = list(results)
            turn = number % len(names) if names else 0
            for name in names[turn:] + names[:turn]:
                try:
                    results[name].append(players[name]())
                except (WorkerFailed, CannotInstall) as error:
                    self.drop(name, error)
                    del results[name]
        return results

    def why_absent(self, *variants: str) -> str:
        return "; ".join(self.absent[name] for name in variants if name in self.absent) or "no results"
