"""Plain text for the terminal: columns that line up, a verdict for each target, a figure for each variant."""

from __future__ import annotations

from collections.abc import Sequence

from bench.results import Chart, label
from bench.targets import Better, Standing, Verdict

COLOURS = {
    Standing.STRETCH: "32;1",
    Standing.PASS: "32",
    Standing.MISSED: "31;1",
    Standing.NOT_MEASURED: "33",
}


def columns(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Lines of equal columns, the first row being the head; those in `right` are set flush right."""
    if not rows:
        return []
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return lines


def verdicts(found: Sequence[Verdict], *, colour: bool = False) -> list[str]:
    rows = [("what", "target", "stretch", "figure", "verdict")]
    for each in found:
        target = each.target
        shown = "–" if each.figure is None else target.show(each.figure)
        rows.append(
            (
                target.what,
                target.show_bound(target.target),
                target.show_bound(target.stretch),
                shown,
                str(each),
            )
        )
    lines = columns(rows, right=frozenset({1, 2, 3}))
    if colour:
        for number, each in enumerate(found, start=2):
            text = str(each)
            cut = lines[number].rindex(text)
            lines[number] = f"{lines[number][:cut]}\x1b[{COLOURS[each.standing]}m{text}\x1b[0m"
    return lines


def side_by_side(charts: Sequence[Chart]) -> list[str]:
    rows = [("quantity", "variant", "median", "p99", "unit", "")]
    for chart in charts:
        best = _best(chart)
        for number, bar in enumerate(chart.bars):
            rows.append(
                (
                    chart.title if number == 0 else "",
                    label(bar.variant),
                    figure(bar.value),
                    "" if bar.p99 is None else figure(bar.p99),
                    chart.unit,
                    "best" if bar.value == best and len(chart.bars) > 1 else "",
                )
            )
    return columns(rows, right=frozenset({2, 3}))


def _best(chart: Chart) -> float | None:
    values = [bar.value for bar in chart.bars]
    if not values:
        return None
    return min(values) if chart.better is Better.LOWER else max(values)


def figure(value: float) -> str:
    """Three significant digits or so, thousands apart."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def summary(found: Sequence[Verdict]) -> str:
    measured = [each for each in found if each.standing is not Standing.NOT_MEASURED]
    met = [each for each in measured if each.standing is not Standing.MISSED]
    stretch = [each for each in measured if each.standing is Standing.STRETCH]
    text = f"{len(met)} of {len(measured)} targets met, {len(stretch)} of them at stretch"
    left = len(found) - len(measured)
    return f"{text}; {left} not measured" if left else text
