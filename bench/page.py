"""docs/benchmarks.md and its pictures, from the records of one run or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import plot, report
from bench.growth import Growth
from bench.results import Chart, label
from bench.table import figure
from bench.targets import REASONS, Standing, Verdict

FOLDER = Path(__file__).parent.parent / "docs"
UNKNOWN = "No reason is known."
HEAD = """# Benchmarks

`python -m bench --docs` measures what is on this page; run it on your machine before you rely on a figure. All variants
of a row take turns on one server, each in a process and an environment of its own. A ratio is the median over the
rounds. A row with figures in brackets was measured by several runs: these are theirs, and before them is their median.
Rows about free locks measure *a new name each time*, which is what `lock(f"order:{id}")` is,
and *the same name* again and again; the first is what most programs do.
"""


def write(record: Mapping[str, Any], growth: Growth) -> Path:
    verdicts, charts = report.verdicts_of(record), report.charts_of(record)
    picture = plot.draw(charts, title="holdtight next to its peers", lines=report.headings(record, record["summary"]))
    (FOLDER / "benchmarks.svg").write_text(picture, encoding="utf-8")
    (FOLDER / "growth.svg").write_text(growth.picture(), encoding="utf-8")
    path = FOLDER / "benchmarks.md"
    path.write_text(text(record, verdicts, charts, growth), encoding="utf-8")
    return path


def text(record: Mapping[str, Any], verdicts: Sequence[Verdict], charts: Sequence[Chart], growth: Growth) -> str:
    facts, notes = record, record["notes"]
    runs = {each["key"]: each.get("runs", ()) for each in record["verdicts"]}
    lines = report.headings(record, record["summary"])
    packages = {name: version for each in facts["variants"].values() for name, version in each.items()}
    parts = [
        HEAD,
        "## The run",
        _table(
            [
                ("", ""),
                ("when", facts["when"]),
                ("result", lines[0]),
                ("server", facts["server"]),
                ("Python", facts["python"]),
                ("machine", f"{facts['cpu']}, {facts['system']}"),
                ("pinning", facts["pinning"]),
                ("effort", facts["effort"]),
                ("commit", facts["commit"]),
                ("packages", ", ".join(f"{name} {version}" for name, version in packages.items())),
                *((f"left out: {name}", why) for name, why in facts["left out"].items()),
            ]
        ),
        "## Targets",
        _table(
            [("what", "target", "figure", "verdict"), *(_row(each, runs.get(each.target.key, ())) for each in verdicts)]
        ),
        *missed(verdicts),
        *(("Notes of the run:", "\n".join(f"- {note}" for note in notes)) if notes else ()),
        "## Side by side",
        "![bars for each quantity](benchmarks.svg)",
        _table([("quantity", "variant", "median", "p99", "unit"), *(row for chart in charts for row in _bars(chart))]),
        "## Growth",
        "What one more lease or waiter costs when there are many already. The exponent is the slope from 100 on, both "
        "axes logarithmic: 0 means that it costs as much as the first.",
        "![curves of growth](growth.svg)",
        _table(growth.table()),
        f"New names as fast as one process with 64 tasks takes them, for {growth.names_for:g} s:",
        _table([("", ""), *((word, figure(value)) for word, value in growth.names.items())]),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def missed(verdicts: Sequence[Verdict]) -> list[str]:
    """The section about targets that this run missed or did not measure; nothing if there are none."""
    found: list[str] = []
    group = ""
    for each in verdicts:
        what = each.target.what
        group = group if what.startswith("…") else what
        name = f"{group} {what}" if what.startswith("…") else what
        if each.standing is Standing.MISSED:
            assert each.figure is not None
            figure_and_bound = f"{each.target.show(each.figure)}, target {each.target.show_bound(each.target.target)}"
            found.append(f"- **{name}**: {figure_and_bound}. {REASONS.get(each.target.key, UNKNOWN)}")
        elif each.standing is Standing.NOT_MEASURED:
            found.append(f"- **{name}**: not measured. {each.why_not}")
    return ["### Missed, and why", "\n".join(found)] if found else []


def _row(each: Verdict, runs: Sequence[float]) -> tuple[str, ...]:
    target = each.target
    shown = "-" if each.figure is None else target.show(each.figure)
    if runs:
        shown += f" ({', '.join(target.show(figure) for figure in runs)})"
    return target.what, target.show_bound(target.target), shown, str(each)


def _bars(chart: Chart) -> list[tuple[str, ...]]:
    return [
        (
            chart.title if number == 0 else "",
            label(bar.variant),
            figure(bar.value),
            "" if bar.p99 is None else figure(bar.p99),
            chart.unit,
        )
        for number, bar in enumerate(chart.bars)
    ]


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
