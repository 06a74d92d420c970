"""`python -m bench`: measures, compares with the targets, prints and saves."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from bench import cpus, growth, page, plot, report, table
from bench.cpus import Cpus
from bench.results import Outcome
from bench.rounds import FULL, QUICK, Bench
from bench.rows import RUN
from bench.servers import FLAVOURS, NoSuchServer, Server
from bench.targets import ROWS, TARGETS, Standing, Verdict

RESULTS = Path(__file__).parent / "results"


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure holdtight next to its peers.")
    parser.add_argument("--quick", action="store_true", help="shorter drills and fewer rounds; figures are rougher")
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="ROW", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--server", choices=FLAVOURS, default="valkey", help="what to measure on (valkey)")
    parser.add_argument(
        "--json", type=Path, default=RESULTS / "latest.json", help="where to write; the plot goes beside"
    )
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md too, with the curves of growth")
    parser.add_argument(
        "--page",
        nargs="+",
        type=Path,
        metavar="JSON",
        help="measure nothing: write docs/benchmarks.md from the results of these runs, and from growth.json beside "
        "the first (see `python -m bench.growth`); a row that several runs measured gets its median and each figure",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    return parser.parse_args(argv)


def judge(rows: Sequence[str], outcomes: Mapping[str, Outcome]) -> list[Verdict]:
    """A verdict for each target of the selected rows."""
    found = []
    for target in TARGETS:
        if target.row not in rows:
            continue
        outcome = outcomes[target.row]
        found.append(Verdict(target, outcome.figures.get(target.key), outcome.missing.get(target.key, "")))
    return found


def main(argv: Sequence[str]) -> int:
    options = _arguments(argv)
    if options.docs and options.only:
        print("--docs writes a page of all rows: leave out --only, or join runs with --page", file=sys.stderr)
        return 2
    if options.page:
        records = [json.loads(path.read_text(encoding="utf-8")) for path in options.page]
        page.write(report.joined(records), growth.read(options.page[0].parent / "growth.json"))
        return 0
    rows: Sequence[str] = options.only or ROWS
    try:
        server = Server(options.server)
    except NoSuchServer as error:
        print(error, file=sys.stderr)
        return 2
    outcomes: dict[str, Outcome] = {}
    with server:
        busy = cpus.busy_share()
        bench = Bench(options.server, server, Cpus.of_this_machine(), QUICK if options.quick else FULL)
        print(f"{server.version}; {bench.cpus}", file=sys.stderr)
        for row in rows:
            start = time.monotonic()
            server.clear()
            outcomes[row] = RUN[row](bench)
            print(f"{row}: {time.monotonic() - start:.0f} s", file=sys.stderr)
        busy = max(filter(None, (busy, cpus.busy_share())), default=None)
        facts = report.surroundings(bench, quick=options.quick, busy=busy)
    verdicts = judge(rows, outcomes)
    charts = [chart for outcome in outcomes.values() for chart in outcome.charts]
    summary = table.summary(verdicts)
    lines = report.headings(facts, summary)
    if charts:
        print("\n".join(table.side_by_side(charts)), end="\n\n")
    print("\n".join(table.verdicts(verdicts, colour=sys.stdout.isatty())), end="\n\n")
    reasons = (f"not measured, {each.why_not}" for each in verdicts if each.standing is Standing.NOT_MEASURED)
    for note in dict.fromkeys((*(note for outcome in outcomes.values() for note in outcome.notes), *reasons)):
        print(f"note: {note}")
    print("\n".join(lines))
    picture = plot.draw(charts, title="holdtight next to its peers", lines=lines)
    record = report.record(facts, verdicts, outcomes)
    report.write(options.json, record, picture)
    if options.docs:
        page.write(record, growth.measure(quick=options.quick))
    missed = any(each.standing is Standing.MISSED for each in verdicts)
    return 1 if options.strict and missed else 0


def _end(number: int, frame: object) -> NoReturn:
    """SIGTERM ends the servers and workers too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
