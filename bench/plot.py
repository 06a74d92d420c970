"""The picture for people: one panel a quantity, one bar a variant."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from bench.results import Bar, Chart, label
from bench.svg import Svg
from bench.table import figure
from bench.targets import Better

INK, MUTED, RULE, PAPER = "#1c2733", "#5b6875", "#dfe4ea", "#ffffff"
SUBJECT, PEER, FLOOR = "#0b7285", "#a9b4c0", "#d8dee5"
COLUMNS, PANEL, GAP, MARGIN = 2, 520, 36, 36
HEAD, BAR, PITCH = 62, 18, 27
EM = 0.64
"""A character's width by the font's size, rather too wide: the font of the reader is not known."""
SHORTEST_ROOM = 90
"""The longest bar has at least so much."""


def draw(charts: Sequence[Chart], *, title: str, lines: Sequence[str]) -> str:
    """The whole picture as SVG text."""
    filled = [chart for chart in charts if chart.bars]
    wide = int((COLUMNS * PANEL + (COLUMNS - 1) * GAP) / _width("x", 13))
    lines = [part for line in lines for part in textwrap.wrap(line, wide)]
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
    """The title, under it the unit, then the bars. Names and figures get the room that they need, bars the rest."""
    picture.line(x, y, x + PANEL, y, RULE)
    size = min(15.0, 15 * PANEL / _width(chart.title, 15))  # a long title is set smaller: it must not leave its panel
    picture.text(x, y + 24, chart.title, size=size, fill=INK, bold=True)
    hint = "lower is better" if chart.better is Better.LOWER else "higher is better"
    picture.text(x, y + 43, f"{chart.unit}, {hint}", size=12, fill=MUTED)
    longest = max(bar.value for bar in chart.bars) or 1.0
    subject = next((bar for bar in chart.bars if bar.variant == "holdtight"), None)
    names, captions = [label(bar.variant) for bar in chart.bars], [_caption(bar, subject) for bar in chart.bars]
    left = max(_width(name, 13) for name in names) + 10
    room = max(SHORTEST_ROOM, PANEL - left - max(_width(caption, 12.5) for caption in captions) - 7)
    for number, (bar, name, caption) in enumerate(zip(chart.bars, names, captions, strict=True)):
        middle = y + HEAD + PITCH * number + BAR / 2
        picture.text(x, middle + 4.5, name, size=13, fill=INK, bold=bar.is_ours)
        width = max(1.5, room * bar.value / longest)
        picture.box(x + left, middle - BAR / 2, width, BAR, _fill(bar), radius=2)
        picture.text(x + left + width + 7, middle + 4.5, caption, size=12.5, fill=INK, bold=bar.is_ours)


def _width(text: str, size: float) -> float:
    return len(text) * size * EM


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
