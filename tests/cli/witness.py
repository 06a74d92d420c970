"""A command that writes down when it runs, with a process of its own beside it; both may ignore SIGTERM."""

from __future__ import annotations

import time
from pathlib import Path

_LOOP = 'while :; do date +%s.%N >> "$0"; sleep 0.02; done'


class Witness:
    def __init__(self, folder: Path, *, stubborn: bool = True) -> None:
        self.file = folder / "witness"
        trap = "trap '' TERM;" if stubborn else ""
        self.command = ["sh", "-c", f"{trap} ({_LOOP}) & {_LOOP}", str(self.file)]

    @property
    def runs(self) -> bool:
        return self.file.exists() and self.file.stat().st_size > 0

    def stamps(self) -> list[float]:
        return [float(line) for line in self.file.read_text().splitlines()]

    def is_silent_since(self, moment: float) -> bool:
        """Whether nothing was written after that time of day, and nothing is written any more."""
        before = len(self.stamps())
        time.sleep(0.3)  # what is shown is that nothing comes
        stamps = self.stamps()
        return len(stamps) == before and max(stamps) < moment
