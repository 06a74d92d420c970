"""Locks as rows of a table: what `ls` and `top` show of each."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdtight import Holder, LockInfo

__all__ = ["COLUMNS", "SORTS", "Row", "aligned", "cell", "duration", "holder_text", "row_of", "table_of"]

COLUMNS = ("NAME", "KIND", "HOLDER", "AGE", "LEFT", "QUEUE", "LABEL", "FENCE")


class Row(NamedTuple):
    name: str
    kind: str
    holder: str
    age: float | None
    left: float | None
    queue: int
    label: str
    fence: int | None
    oldest: float | None
    """Seconds that the first in line has waited."""

    def texts(self) -> tuple[str, ...]:
        fence = "" if self.fence is None else str(self.fence)
        age, left = duration(self.age), duration(self.left)
        return (self.name, self.kind, self.holder, age, left, str(self.queue), self.label, fence)


SORTS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: row.name,
    "age": lambda row: -(row.age or 0.0),
    "left": lambda row: float("inf") if row.left is None else row.left,
    "queue": lambda row: (-row.queue, row.name),
}


def row_of(info: LockInfo, now: float | None = None) -> Row:
    """`now` is the time of day. The server's may differ a little; nothing is younger than 0 s."""
    now = time.time() if now is None else now
    first = info.holders[0] if info.holders else None
    begun = [holder.since for holder in info.holders if holder.since is not None]
    left = [holder.expires_in for holder in info.holders if holder.expires_in is not None]
    waiting = [waiter.since for waiter in info.waiters if waiter.since is not None]
    more = f" +{len(info.holders) - 1}" if len(info.holders) > 1 else ""
    return Row(
        name=info.name,
        kind=info.kind.value if info.kind else "",
        holder=holder_text(first) + more if first else "",
        age=max(0.0, now - min(begun)) if begun else None,
        left=max(0.0, max(left)) if left else None,
        queue=info.waiting,
        label=first.label or "" if first else "",
        fence=first.fence if first else info.fence,
        oldest=max(0.0, now - min(waiting)) if waiting else None,
    )


def holder_text(holder: Holder) -> str:
    """`web-3:811`, or the start of the owner's id if its client has left no record."""
    return f"{holder.host}:{holder.pid}" if holder.host else f"{holder.owner[:11]}..."


def duration(seconds: float | None) -> str:
    """`4.1s`, `2m07s`, `2h13m`, `3d04h`."""
    if seconds is None:
        return ""
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for unit, size, lower, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02}{lower}"
    return f"{whole // 60}m{whole % 60:02}s"


def table_of(columns: Sequence[str], *, expand: bool = False) -> Any:
    """A table for a terminal. Where that is narrow, names, holders and labels are cut, and never the figures."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", expand=expand)
    for column in columns:
        right = column in ("AGE", "QUEUE", "OLDEST") or (column == "LEFT" and not expand)
        cut = column in ("NAME", "HOLDER", "LABEL")
        # rich takes room from columns that may wrap first; the cells themselves say that they do not.
        table.add_column(column, no_wrap=not cut, justify="right" if right else "left", overflow="ellipsis")
    return table


def cell(text: str, style: str = "") -> Any:
    """One line, cut where the terminal ends."""
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns under each other, as wide as they must be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
