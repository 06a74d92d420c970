"""`holdtight bench`: what locks cost on your server, from this machine."""

import ipaddress
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from holdtight import Locks, __version__
from holdtight.cli.options import Duration, common, of
from holdtight.cli.printing import plain, print_json
from holdtight.cli.rows import aligned

__all__ = ["bench"]

THREADS = 16


class Figure(NamedTuple):
    what: str
    per_second: float
    p50_ms: float
    p99_ms: float


@click.command(
    epilog="""\b
Examples:
  holdtight bench --url redis://localhost:6379/0
  holdtight bench --url redis://db1:6379/0 --yes --seconds 10
"""
)
@click.option("--yes", is_flag=True, help="Needed unless the server is on this machine: this loads it.")
@click.option("--seconds", type=Duration(0.01), default=2.0, show_default=True, metavar="D", help="For each row.")
@common
@click.pass_context
def bench(context: click.Context, /, seconds: float, yes: bool) -> None:
    """Measure how fast locks are here: taking and giving back, and handing over.

    The locks that it takes have random names, and none is left.
    """
    settings = of(context)
    with settings.locks() as locks:
        if not yes and not all(map(_is_local, _hosts(locks))):
            raise click.UsageError("the server is not on this machine, and this loads it: say --yes", context)
        prefix = f"holdtight-bench:{os.urandom(6).hex()}"
        figures = [
            _measured("a pair, one thread", seconds, 1, lambda _: _pair(locks, prefix)),
            _measured(f"pairs, {THREADS} threads", seconds, THREADS, lambda _: _pair(locks, prefix)),
            _measured("a hand-over, 4 threads on one name", seconds, 4, lambda _: _turn(locks, prefix)),
        ]
        about = {"server": locks.place.display, "holdtight": __version__, "seconds": seconds}
    if settings.json:
        print_json({**about, "rows": [figure._asdict() for figure in figures]})
        return
    click.echo(plain(f"{about['server']}, {seconds:g} s each"))
    rows = [
        (each.what, f"{each.per_second:,.0f}/s", f"{each.p50_ms:.3f} ms", f"{each.p99_ms:.3f} ms") for each in figures
    ]
    for line in aligned([("WHAT", "RATE", "P50", "P99"), *rows]):
        click.echo(line)


def _pair(locks: Locks, prefix: str) -> Callable[[], object]:
    """A new name each time, as in `lock(f"order:{id}")`."""
    mine, count = f"{prefix}:{os.urandom(4).hex()}", iter(range(1 << 62))

    def run() -> None:
        with locks.lock(f"{mine}:{next(count)}", ttl=10):
            pass

    return run


def _turn(locks: Locks, prefix: str) -> Callable[[], object]:
    lock = locks.lock(f"{prefix}:hot", ttl=10)

    def run() -> None:
        with lock:
            pass

    return run


def _measured(what: str, seconds: float, threads: int, make: Callable[[int], Callable[[], object]]) -> Figure:
    took: list[list[float]] = [[] for _ in range(threads)]
    failures: list[BaseException] = []
    ready = threading.Barrier(threads)

    def work(number: int) -> None:
        try:
            run, mine = make(number), took[number]
            run()
            ready.wait(30)
            end = time.perf_counter() + seconds
            while (begun := time.perf_counter()) < end:
                run()
                mine.append(time.perf_counter() - begun)
        except BaseException as error:
            ready.abort()
            failures.append(error)

    team = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for member in team:
        member.start()
    for member in team:
        member.join()
    for failure in failures:
        if not isinstance(failure, threading.BrokenBarrierError):
            raise failure
    all_of_them = sorted(each for mine in took for each in mine)
    at = len(all_of_them) - 1
    return Figure(
        what,
        len(all_of_them) / seconds,
        round(1000 * all_of_them[at // 2], 4) if all_of_them else 0.0,
        round(1000 * all_of_them[at * 99 // 100], 4) if all_of_them else 0.0,
    )


def _hosts(locks: Any) -> list[str]:
    nodes: list[str] = getattr(locks.place, "names", None) or [locks.place.display]
    servers = [urlsplit(node) for node in nodes if node.startswith(("redis", "valkey"))]
    # A cluster's URL names several servers.
    return [urlsplit(f"//{each}").hostname or "" for server in servers for each in server.netloc.split(",")]


def _is_local(host: str) -> bool:
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
