"""A small writer of SVG: elements with attributes, text that is escaped, nothing else."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Svg:
    """A picture of fixed size; elements lie on each other in the order in which they were added."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._width, self._height, self._title = width, height, title
        self._parts: list[str] = []

    def element(self, tag: str, text: str | None = None, /, **attributes: str | float) -> None:
        """`stroke_width=2` becomes `stroke-width="2"`."""
        pairs = " ".join(
            f"{name.replace('_', '-')}={quoteattr(value if isinstance(value, str) else _number(value))}"
            for name, value in attributes.items()
        )
        self._parts.append(f"<{tag} {pairs}/>" if text is None else f"<{tag} {pairs}>{escape(text)}</{tag}>")

    def box(self, x: float, y: float, width: float, height: float, fill: str, *, radius: float = 0) -> None:
        self.element("rect", x=x, y=y, width=max(0.0, width), height=height, fill=fill, rx=radius)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1) -> None:
        self.element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, stroke_width=width)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 13,
        fill: str = "#1c2733",
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = "600" if bold else "400"
        self.element("text", text, x=x, y=y, font_size=size, fill=fill, text_anchor=anchor, font_weight=weight)

    def __str__(self) -> str:
        size = f'width="{_number(self._width)}" height="{_number(self._height)}"'
        box = f'viewBox="0 0 {_number(self._width)} {_number(self._height)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img" font-family="{escape(FONT)}">'
        return "\n".join((head, f"<title>{escape(self._title)}</title>", *self._parts, "</svg>", ""))
