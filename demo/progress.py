"""A line that shows how far things are; on anything but a terminal, a line at the end only."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 30


class Progress:
    def __init__(self, title: str, total: int, out: TextIO = sys.stderr) -> None:
        self._title, self._total, self._out = title, total, out
        self._live = out.isatty()
        self._start = time.monotonic()

    def show(self, done: int) -> None:
        if self._live:
            self._out.write(f"\r{self.line(done)}")
            self._out.flush()

    def line(self, done: int) -> str:
        share = done / self._total if self._total else 1.0
        full = int(share * WIDTH)
        bar = "#" * full + "." * (WIDTH - full)
        return f"{self._title:<24} {bar} {share:4.0%}  {done:,} of {self._total:,}"

    def end(self, done: int) -> None:
        took = time.monotonic() - self._start
        self._out.write(("\r" if self._live else "") + f"{self.line(done)}  {took:.1f} s\n")
        self._out.flush()
