"""The picture for people: one panel a quantity, one bar a variant."""

from __future__ import annotations

from collections.abc import Sequence

from bench.results import Bar, Chart, label
from bench.svg import Svg
from bench.table import figure
from bench.targets import Better

INK, MUTED, RULE, PAPER = "#1c2733", "#5b6875", "#dfe4ea", "#ffffff"
SUBJECT, PEER, FLOOR = "#0b7285", "#a9b4c0", "#d8dee5"
COLUMNS, PANEL, GAP, MARGIN = 2, 520, 36, 36
HEAD, BAR, PITCH = 46, 18, 27
NAMES, FIGURES = 132, 150  # room for the names left of the bars and the figures right of them


def draw(charts: Sequence[Chart], *, title: str, lines: Sequence[str]) -> str:
    """The whole picture as SVG text."""
    filled = [chart for chart in charts if chart.bars]
    top = MARGIN + 34 + 19 * len(lines) + 22
    rows = [filled[start : start + COLUMNS] for start in range(0, len(filled), COLUMNS)]
    heights = [max(_height(chart) for chart in row) for row in rows]
    picture = Svg(2 * MARGIN + COLUMNS * PANEL + (COLUMNS - 1) * GAP, top + sum(heights) + 20, title)
    picture.box(0, 0, 2 * MARGIN + COLUMNS * PANEL + GAP, top + sum(heights) + 20, PAPER)
    picture.text(MARGIN, MARGIN + 14, title, size=23, fill=INK, bold=True)
    for number, line in enumerate(lines):
        picture.text(MARGIN, MARGIN + 40 + 19 * number, line, size=13, fill=MUTED)
    y = float(top)
    for row, height in zip(rows, heights, strict=True):
        for column, chart in enumerate(row):
            _panel(picture, MARGIN + column * (PANEL + GAP), y, chart)
        y += height
    return str(picture)


def _height(chart: Chart) -> float:
    return HEAD + PITCH * len(chart.bars) + 26


def _panel(picture: Svg, x: float, y: float, chart: Chart) -> None:
    picture.line(x, y, x + PANEL, y, RULE)
    picture.text(x, y + 24, chart.title, size=15, fill=INK, bold=True)
    hint = "lower is better" if chart.better is Better.LOWER else "higher is better"
    picture.text(x + PANEL, y + 24, f"{chart.unit}, {hint}", size=12, fill=MUTED, anchor="end")
    room = PANEL - NAMES - FIGURES
    longest = max(bar.value for bar in chart.bars) or 1.0
    subject = next((bar for bar in chart.bars if bar.variant == "holdtight"), None)
    for number, bar in enumerate(chart.bars):
        middle = y + HEAD + PITCH * number + BAR / 2
        picture.text(x, middle + 4.5, label(bar.variant), size=13, fill=INK, bold=bar.is_ours)
        width = max(1.5, room * bar.value / longest)
        picture.box(x + NAMES, middle - BAR / 2, width, BAR, _fill(bar), radius=2)
        picture.text(x + NAMES + width + 7, middle + 4.5, _caption(bar, subject), size=12.5, fill=INK, bold=bar.is_ours)


def _fill(bar: Bar) -> str:
    if bar.is_ours:
        return SUBJECT
    return FLOOR if "floor" in bar.variant else PEER


def _caption(bar: Bar, subject: Bar | None) -> str:
    text = figure(bar.value)
    if bar.p99 is not None:
        text += f"  (p99 {figure(bar.p99)})"
    if subject is not None and bar is not subject and subject.value > 0 and bar.p99 is None:
        text += f"  ({bar.value / subject.value:.2f}×)"
    return text
