"""`python -m bench.growth`: how cost grows with the number of leases, waiters and names, as curves with exponents.

An exponent of 0 means that one more costs as much as the first, whatever the number; 1 means that each costs more in
proportion to how many there are. It is the slope of a straight line through the points, both axes logarithmic.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.servers import Server
from bench.svg import Svg
from bench.table import columns, figure
from bench.worker_process import Worker

RESULTS = Path(__file__).parent / "results"
INK, MUTED, RULE, PAPER, OURS = "#1c2733", "#5b6875", "#dfe4ea", "#ffffff", "#0b7285"
PANEL, HIGH, MARGIN = 520, 250, 36


@dataclass(frozen=True, slots=True)
class Curve:
    title: str
    of: str
    """What there is more of."""
    unit: str
    points: tuple[tuple[int, float], ...]

    @property
    def exponent(self) -> float:
        """By least squares. From 100 on: with few, what is there once and for all outweighs the rest."""
        points = [(math.log(x), math.log(y)) for x, y in self.points if x >= 100 and y > 0]
        if len(points) < 2:
            return math.nan
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def held(server: Server, counts: Sequence[int]) -> list[Curve]:
    """Leases that one process holds and renews."""
    client, memory, there = list[tuple[int, float]](), list[tuple[int, float]](), list[tuple[int, float]]()
    for count in counts:
        server.clear()
        with Worker("holdtight", server.url) as worker:
            before = server.worked()
            seen = worker.do("leases.held", leases=count, seconds=20)
            if seen["lost"]:
                raise RuntimeError(f"{seen['lost']} of {count:,} leases were lost")
            client.append((count, seen["cpu_percent"] * 10_000 / count))
            there.append((count, (server.worked() - before) * 1e6 / count))
            if count >= 100:
                memory.append((count, seen["bytes_each"]))
    return [
        Curve("held leases: processor time to keep one", "leases held", "µs a second", tuple(client)),
        Curve("held leases: memory of the process for each", "leases held", "bytes", tuple(memory)),
        Curve(
            "held leases: server's processor time for each, for 20 s",
            "leases held",
            "µs",
            tuple(there),
        ),
    ]


def waiting(server: Server, counts: Sequence[int]) -> list[Curve]:
    """Waiters in line for one name."""
    costs, idle, memory = list[tuple[int, float]](), list[tuple[int, float]](), list[tuple[int, float]]()
    for count in counts:
        server.clear()
        with Worker("holdtight", server.url) as worker:
            seen = worker.do("queue.handovers", waiters=count, seconds=3)
            costs.append((count, seen["script_us"] / max(1, seen["handovers"])))
            idle.append((count, seen["idle_us_per_second"] / count))
            if count >= 100:
                memory.append((count, seen["bytes_each"]))
    return [
        Curve("waiters: server time for a hand-over", "waiters in line", "µs", tuple(costs)),
        Curve("waiters: server time to keep a place", "waiters in line", "µs a second", tuple(idle)),
        Curve("waiters: memory of the process for each", "waiters in line", "bytes", tuple(memory)),
    ]


def idle_locks(server: Server, counts: Sequence[int]) -> list[Curve]:
    """Lock objects that a program keeps and does not use."""
    with Worker("holdtight", server.url) as worker:
        sizes = [(count, float(worker.do("leases.idle_locks", count=count))) for count in counts if count >= 100]
    return [Curve("idle locks: memory of the process for each", "lock objects", "bytes", tuple(sizes))]


def names(server: Server, seconds: float) -> dict[str, float]:
    """New names as fast as one process takes them: how many a minute, and what is left behind."""
    server.clear()
    with Worker("asleep", server.url) as worker:
        before = server.connection.used_memory()
        done = worker.do("free.cost_of_tasks", count=64, seconds=seconds, fresh=True)
        peak = int(server.connection.ask("DBSIZE"))
    start = time.monotonic()
    while (left := int(server.connection.ask("DBSIZE"))) and time.monotonic() - start < 120:
        time.sleep(0.5)
    return {
        "names a minute": done["pairs"] / done["seconds"] * 60,
        "client µs a pair": done["processor"] * 1e6,
        "keys at the end": peak,
        "keys left": left,
        "seconds until none was left": time.monotonic() - start,
        "server bytes left": server.connection.used_memory() - before,
    }


def draw(curves: Sequence[Curve], lines: Sequence[str]) -> str:
    top = MARGIN + 34 + 19 * len(lines) + 22
    rows = (len(curves) + 1) // 2
    picture = Svg(3 * MARGIN + 2 * PANEL, top + rows * (HIGH + 90), "How cost grows")
    picture.box(0, 0, 3 * MARGIN + 2 * PANEL, top + rows * (HIGH + 90), PAPER)
    picture.text(MARGIN, MARGIN + 14, "How cost grows", size=23, fill=INK, bold=True)
    for number, line in enumerate(lines):
        picture.text(MARGIN, MARGIN + 40 + 19 * number, line, size=13, fill=MUTED)
    for number, curve in enumerate(curves):
        _panel(picture, MARGIN + number % 2 * (PANEL + MARGIN), top + number // 2 * (HIGH + 90), curve)
    return str(picture)


def _panel(picture: Svg, x: float, y: float, curve: Curve) -> None:
    """One curve, both axes logarithmic; the y axis begins at a tenth of the largest figure at most."""
    picture.line(x, y, x + PANEL, y, RULE)
    picture.text(x, y + 22, curve.title, size=13, fill=INK, bold=True)
    picture.text(x, y + 40, f"{curve.unit}; exponent {curve.exponent:.2f} from 100 on", size=12, fill=MUTED)
    left, bottom, wide, high = x + 44, y + HIGH + 36, PANEL - 90, HIGH - 30
    tops = max(value for _, value in curve.points)
    least = min(min(value for _, value in curve.points if value > 0), tops / 10)
    low, span = math.floor(math.log10(least)), max(1, math.ceil(math.log10(tops)) - math.floor(math.log10(least)))
    most = max(1.0, math.log10(curve.points[-1][0]))

    def at(count: int, value: float) -> tuple[float, float]:
        return left + wide * math.log10(count) / most, bottom - high * (math.log10(max(value, least)) - low) / span

    for power in range(low, low + span + 1):
        height = bottom - high * (power - low) / span
        picture.line(left, height, left + wide, height, RULE)
        picture.text(left - 6, height + 4, f"{10**power:g}", size=11, fill=MUTED, anchor="end")
    places = [at(*point) for point in curve.points]
    for (x1, y1), (x2, y2) in pairwise(places):
        picture.line(x1, y1, x2, y2, OURS, 2)
    for (count, value), (x1, y1) in zip(curve.points, places, strict=True):
        picture.element("circle", cx=x1, cy=y1, r=3.5, fill=OURS)
        picture.text(x1, y1 - 9, figure(value), size=11, fill=INK, anchor="middle")
        picture.text(x1, bottom + 16, f"{count:,}", size=11, fill=MUTED, anchor="middle")
    picture.text(left + wide, bottom + 32, curve.of, size=11, fill=MUTED, anchor="end")


@dataclass(frozen=True, slots=True)
class Growth:
    counts: tuple[int, ...]
    curves: tuple[Curve, ...]
    names: dict[str, float]
    names_for: float
    """Seconds."""
    lines: tuple[str, ...]

    def table(self) -> list[tuple[str, ...]]:
        rows = [("what", "exponent", *(f"{count:,}" for count in self.counts))]
        for curve in self.curves:
            found = dict(curve.points)
            shown = (figure(found[count]) if count in found else "" for count in self.counts)
            rows.append((f"{curve.title}, {curve.unit}", f"{curve.exponent:.2f}", *shown))
        return rows

    def picture(self) -> str:
        return draw(self.curves, self.lines)


def measure(*, quick: bool) -> Growth:
    counts = tuple(count for count in (1, 10, 100, 1_000, 10_000, 100_000) if count <= (1_000 if quick else 100_000))
    with Server("valkey") as server:
        curves = (
            *held(server, counts),
            *waiting(server, [count for count in counts if count <= 10_000]),
            *idle_locks(server, counts),
        )
        seconds = 10 if quick else 60
        fresh = names(server, seconds)
        lines = (
            f"{server.version}. Both axes are logarithmic: a flat line costs as much for the last as for the first.",
        )
    return Growth(counts, curves, fresh, seconds, lines)


def read(path: Path) -> Growth:
    """What `main` has written."""
    found = json.loads(path.read_text(encoding="utf-8"))
    curves = [
        Curve(each["title"], each["of"], each["unit"], tuple((count, value) for count, value in each["points"]))
        for each in found["curves"]
    ]
    return Growth(
        tuple(found["counts"]), tuple(curves), found["names"], found["names for seconds"], tuple(found["lines"])
    )


def _plain(found: Growth) -> dict[str, Any]:
    return {
        "counts": found.counts,
        "curves": [
            {"title": each.title, "of": each.of, "unit": each.unit, "exponent": each.exponent, "points": each.points}
            for each in found.curves
        ],
        "names": found.names,
        "names for seconds": found.names_for,
        "lines": found.lines,
    }


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="up to 1,000 only")
    parser.add_argument("--json", type=Path, default=RESULTS / "growth.json", help="the plot goes beside")
    options = parser.parse_args(argv)
    found = measure(quick=options.quick)
    rows = found.table()
    print("\n".join(columns(rows, right=frozenset(range(1, len(rows[0]))))), end="\n\n")
    for word, value in found.names.items():
        print(f"{word}: {figure(value)}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(_plain(found), indent=1) + "\n", encoding="utf-8")
    options.json.with_suffix(".svg").write_text(found.picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
