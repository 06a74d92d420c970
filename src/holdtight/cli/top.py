"""`holdtight top`: the locks of a namespace on the terminal, as they change."""

import os
import re
import select
import sys
import termios
import time
import tty
from typing import Any

import click

from holdtight import LockError
from holdtight.cli.board import Board
from holdtight.cli.options import Duration, common, of, text_of
from holdtight.cli.printing import plain, plain_lines
from holdtight.cli.rows import SORTS, Row, aligned, cell, duration, table_of

__all__ = ["top"]

COLUMNS = ("NAME", "KIND", "HOLDER", "AGE", "LEFT", "QUEUE", "OLDEST")
KEYS = "q quit  s sort  / filter  up/down enter show  f force  space pause"
FULL, EMPTY, BAR = "#", ".", 8
ESCAPE, ENTER, ERASE = "\x1b", ("\r", "\n"), ("\x7f", "\b")
_ARROWS = {"\x1b[A": -1, "\x1b[B": 1, "\x1bOA": -1, "\x1bOB": 1}
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
"""A character, or what a key such as an arrow sends."""


@click.command(epilog="\b\nExamples:\n  holdtight top\n  holdtight top 'order:*' -d 500ms\n  holdtight top | head -5")
@click.option("-n", "--times", type=click.IntRange(1), metavar="N", help="End after so many looks.")
@click.option("-d", "--delay", type=Duration(0.05, 86400), default=1.0, metavar="D", help="Between two looks (1s).")
@click.argument("pattern", default="*")
@common
@click.pass_context
def top(context: click.Context, /, pattern: str, delay: float, times: int | None) -> None:
    """Watch the locks that are held or waited for. In a pipe: print them once."""
    settings = of(context)
    with settings.locks() as locks:
        board = Board(locks, pattern)
        if sys.stdout.isatty() and sys.stdin.isatty():
            Screen(board, locks, delay, times).run()
        else:
            board.refresh()
            for line in (title(board, locks), *aligned([COLUMNS, *map(texts, board.rows())]), *waits(board)):
                click.echo(line)


def title(board: Board, locks: Any, state: str = "") -> str:
    """`state` comes first: a narrow terminal cuts the end."""
    place = locks.place.display
    scan = f"scan {board.scan_seconds:.1f} s/{board.scan_every:.0f} s"
    counts = f"held {board.held}  waiting {board.waiting}"
    return plain(f"{state}{place} ns {locks.settings.namespace}   {counts}  {scan}   {time.strftime('%H:%M:%S')}")


def texts(row: Row) -> tuple[str, ...]:
    holder = f"{row.holder} ({row.label})" if row.label else row.holder
    cells = (row.name, row.kind, holder, duration(row.age), duration(row.left), str(row.queue), duration(row.oldest))
    return tuple(plain(cell) for cell in cells)


def waits(board: Board) -> list[str]:
    return [plain(f" waits: {line}") for line in board.waits()]


class Screen:
    """The terminal: draws the board, obeys keys."""

    def __init__(self, board: Board, locks: Any, delay: float, times: int | None) -> None:
        self._board, self._locks, self._delay, self._times = board, locks, delay, times
        self._paused = False
        self._at = 0
        self._longest: dict[str, float] = {}
        """The longest time left that was seen of each lock: a full bar."""
        self._prompt: str | None = None
        """The question that the typed text answers: `filter: ` or `reason: `."""
        self._typed = ""
        self._condemned: tuple[str, str | None] = "", None
        """The lock that is released if a reason is typed, and its holder, if it has only one."""
        self._detail = ""
        self._message = ""
        self._unread = 0
        """For how many looks the message stays."""

    def run(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console, before = Console(highlight=False), termios.tcgetattr(sys.stdin)
        try:
            tty.setcbreak(sys.stdin)
            with Live(console=console, screen=True, auto_refresh=False) as live:
                self._loop(live, console)
        except KeyboardInterrupt:
            pass
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    def _loop(self, live: Any, console: Any) -> None:
        looks, look_at = 0, 0.0
        while True:
            now = time.monotonic()
            if now >= look_at and not self._paused:
                self._look()
                looks, look_at = looks + 1, time.monotonic() + self._delay
            live.update(self._draw(console.size.height), refresh=True)
            if self._times is not None and looks >= self._times:
                return
            pause = self._delay if self._paused else max(0.0, look_at - time.monotonic())
            if select.select([sys.stdin], [], [], pause)[0] and not all(map(self._key, _read_keys())):
                return

    def _look(self) -> None:
        try:
            self._board.refresh()
            if self._unread == 0:
                self._message = ""
            self._unread = max(0, self._unread - 1)
        except LockError as error:
            self._message = text_of(error)

    # Keys. Each returns False to end.

    def _key(self, key: str) -> bool:
        if self._prompt is not None:
            self._answer(key)
        elif self._detail:
            self._detail = ""
        elif key == "q":
            return False
        elif key == "s":
            orders = list(SORTS)
            self._board.sort = orders[(orders.index(self._board.sort) + 1) % len(orders)]
        elif key == "/":
            self._prompt, self._typed = "filter: ", self._board.filter
        elif key == " ":
            self._paused = not self._paused
        elif key in _ARROWS:
            self._at += _ARROWS[key]
        elif key in ENTER and self._selected:
            self._detail = plain_lines(str(self._board.infos[self._selected.name]))
        elif key == "f" and self._selected:
            self._ask_why(self._selected.name)
        return True

    def _answer(self, key: str) -> None:
        if key == ESCAPE:
            self._prompt = None
        elif key in ERASE:
            self._typed = self._typed[:-1]
        elif key in ENTER:
            prompt, self._prompt = self._prompt, None
            if prompt == "filter: ":
                self._board.filter = self._typed
            elif self._typed:
                self._force()
        elif key.isprintable():
            self._typed += key

    def _ask_why(self, name: str) -> None:
        """What is released is what the operator sees now, whatever row it is in when the reason has been typed."""
        holders = self._board.infos[name].holders
        if not holders:
            self._unread, self._message = 5, f"{name!r} is not held"
            return
        self._condemned = name, holders[0].owner if len(holders) == 1 else None
        self._prompt, self._typed = f"release {name!r} by force, reason (escape: no): ", ""

    def _force(self) -> None:
        self._unread = 5
        name, owner = self._condemned
        try:
            record = self._locks.force_release(name, reason=self._typed, owner=owner)
            nobody = f"{name!r} is not held" + (" by that holder any more" if owner else "")
            self._message = nobody if record is None else f"{name!r} released, fence {record.fence}"
        except (LockError, ValueError) as error:
            self._message = text_of(error)

    @property
    def _selected(self) -> Row | None:
        rows = self._board.rows()
        return rows[max(0, min(self._at, len(rows) - 1))] if rows else None

    # Drawing.

    def _draw(self, height: int) -> Any:
        from rich.console import Group
        from rich.text import Text

        if self._detail:
            return Group(Text(self._detail), Text("any key: back", style="dim"))
        count, circles = len(self._board.shown), waits(self._board)[:5]
        self._at = max(0, min(self._at, count - 1))
        room = max(1, height - 5 - len(circles))
        first = max(0, min(self._at - room + 1, count - room)) if self._at >= room else 0
        table = table_of(COLUMNS, expand=True)
        for number, row in enumerate(self._board.rows(first, first + room), first):
            name, kind, holder, age, left, queue, oldest = texts(row)
            cells = (name, kind, holder, age, f"{self._bar(row)} {left}", queue, oldest)
            table.add_row(*map(cell, cells), style="reverse" if number == self._at else "")
        state = "PAUSED  " if self._paused else ""
        state += f"filter {self._board.filter!r}  " if self._board.filter else ""
        state += f"sort {self._board.sort}  " if self._board.sort != "name" else ""
        last = self._prompt + self._typed if self._prompt is not None else KEYS
        return Group(
            cell(title(self._board, self._locks, state), style="bold"),
            table,
            *(cell(line, style="red" if "CYCLE" in line else "") for line in circles),
            cell(plain(self._message), style="yellow"),
            cell(plain(last), style="dim" if self._prompt is None else ""),
        )

    def _bar(self, row: Row) -> str:
        if row.left is None:
            return EMPTY * BAR
        longest = self._longest[row.name] = max(self._longest.get(row.name, 0.0), row.left)
        full = round(BAR * row.left / longest) if longest else 0
        return FULL * full + EMPTY * (BAR - full)


def _read_keys() -> list[str]:
    """What was typed: characters and keys that send an escape sequence, several at once of a key that is held down."""
    data = os.read(sys.stdin.fileno(), 1024)
    if not data:
        return ["q"]  # the terminal is gone
    text = data.decode("utf-8", "replace")
    return [key for key in _KEY.findall(text) if len(key) == 1 or key in _ARROWS]
