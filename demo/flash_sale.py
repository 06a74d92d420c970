"""The flash sale: `python -m demo.flash_sale`, about a minute.

Four processes of a shop sell 20 articles, 1,000 units in all, to 100,000 customers; then four services
ask 25,000 times each for a page that is not in the cache and is dear to compute. Three times over: with
no lock, with a lock in each process, with holdtight.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from demo.progress import Progress
from demo.service import Mode, Plan, Shift, work
from demo.shop import Shop
from holdtight.embedded import Server


@dataclass(frozen=True, slots=True)
class Result:
    mode: Mode
    units_sold: int
    oversold: int
    computations: int
    requests_per_second: float
    longest_wait: float


class Staff(AbstractContextManager["Staff"]):
    """The processes of one run. None of them outlives it."""

    def __init__(self, plan: Plan, mode: Mode, url: str, database: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._served = spawn.RawArray("q", plan.services)
        # Kept here: the semaphores vanish with the parent's own reference, even while children are starting.
        self._gate = spawn.Barrier(plan.services)
        self._inboxes: list[Connection] = []
        self._processes: list[SpawnProcess] = []
        outboxes: list[Connection] = []
        for number in range(plan.services):
            inbox, outbox = spawn.Pipe(duplex=False)
            self._inboxes.append(inbox)
            process = spawn.Process(
                target=work,
                args=(number, plan, mode, url, database, self._served, self._gate, outbox),
                daemon=True,
            )
            self._processes.append(process)
            outboxes.append(outbox)
        # Only this process handles Ctrl-C: children inherit the blocked signal, and we get a pending one afterwards.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for process in self._processes:
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for outbox in outboxes:
            outbox.close()

    @property
    def served(self) -> int:
        return sum(self._served)

    @property
    def busy(self) -> bool:
        """Raises if one has failed, since the others wait for it."""
        for process in self._processes:
            if process.exitcode:
                raise RuntimeError(f"a service has ended with exit code {process.exitcode}")
        return any(process.is_alive() for process in self._processes)

    def shifts(self) -> list[Shift]:
        reports = [inbox.recv() for inbox in self._inboxes]
        for process in self._processes:
            process.join()
        return reports

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.is_alive():
                process.terminate()
            process.join()
        for inbox in self._inboxes:
            inbox.close()


def run(mode: Mode, plan: Plan, url: str, folder: Path) -> Result:
    database = folder / f"{mode.name.lower()}.sqlite"
    shop = Shop.create(database, plan.articles, plan.stock)
    try:
        with Staff(plan, mode, url, database) as staff:
            progress = Progress(mode.value, plan.requests + plan.asks)
            while staff.busy:
                progress.show(staff.served)
                time.sleep(0.1)
            progress.end(staff.served)
            shifts = staff.shifts()
        seconds = max(shift.sale_ended for shift in shifts) - min(shift.sale_began for shift in shifts)
        return Result(
            mode=mode,
            units_sold=shop.units_sold(),
            oversold=max(0, shop.units_sold() - plan.stock),
            computations=shop.computations(),
            requests_per_second=plan.requests / seconds,
            longest_wait=max(shift.longest_wait for shift in shifts),
        )
    finally:
        shop.close()


def table(results: Sequence[Result]) -> str:
    rows = [("", "units sold", "oversold", "computations", "requests/s", "longest wait")]
    rows += [
        (
            result.mode.value,
            f"{result.units_sold:,}",
            f"{result.oversold:,}",
            f"{result.computations:,}",
            f"{result.requests_per_second:,.0f}",
            "-" if result.mode is Mode.NONE else f"{result.longest_wait * 1000:,.0f} ms",
        )
        for result in results
    ]
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def sale(plan: Plan) -> list[Result]:
    """All three runs, on a server and in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="flash-sale-") as folder, Server() as server:
        return [run(mode, plan, server.url, Path(folder)) for mode in Mode]


def main(argv: Sequence[str]) -> int:
    normal = Plan()
    parser = argparse.ArgumentParser(prog="python -m demo.flash_sale", description="Sell out, three times over.")
    parser.add_argument("--requests", type=int, default=normal.requests, help="customers' requests (%(default)s)")
    parser.add_argument("--asks", type=int, default=normal.asks, help="requests for the page (%(default)s)")
    options = parser.parse_args(argv)
    plan = Plan(requests=options.requests, asks=options.asks)
    print(
        f"{plan.services} processes, {plan.requests:,} requests for {plan.articles} articles "
        f"with {plan.stock:,} units in all,\n"
        f"then {plan.asks:,} requests for a page that the cache does not have yet\n",
        flush=True,
    )
    results = sale(plan)
    print(f"\n{table(results)}")
    last = results[-1]
    return 0 if last.oversold == 0 and last.computations == 1 else 1


def _end(number: int, frame: object) -> NoReturn:
    """SIGTERM cleans up too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\nstopped; nothing is left running", file=sys.stderr)
        sys.exit(130)
