"""What `holdtight top` knows: the locks of a namespace, looked at every second, and found anew from time to time."""

import time
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from holdtight import LockInfo, Locks
from holdtight.cli.rows import SORTS, Row, holder_text, row_of

__all__ = ["Board"]

SCAN_EVERY = 10.0
SCAN_SHARE = 20
"""A scan takes at most one part in so many of the time."""


class Board:
    def __init__(self, locks: Locks, pattern: str) -> None:
        self._locks = locks
        self._pattern = pattern
        self._listing: Any = locks._listing(pattern)  # pyright: ignore[reportPrivateUsage]
        self._scan_at = 0.0
        self.infos: dict[str, LockInfo] = {}
        self.scan_seconds = 0.0
        self.sort = "name"
        self.filter = ""

    def refresh(self) -> None:
        """Looks at the known locks again; scans for new ones if it is time."""
        now = time.monotonic()
        if now >= self._scan_at:
            self.infos = {info.name: info for info in self._locks.list(self._pattern)}
            self.scan_seconds = time.monotonic() - now
            self._scan_at = time.monotonic() + self.scan_every
        elif self.infos:
            found: list[LockInfo] = self._locks.run(self._listing.look(list(self.infos)), "")
            self.infos = {info.name: info for info in found}

    @property
    def scan_every(self) -> float:
        return max(SCAN_EVERY, SCAN_SHARE * self.scan_seconds)

    @property
    def held(self) -> int:
        return sum(info.locked for info in self.infos.values())

    @property
    def waiting(self) -> int:
        return sum(info.waiting for info in self.infos.values())

    @property
    def shown(self) -> list[LockInfo]:
        """The locks that the filter lets through."""
        return [info for info in self.infos.values() if self.filter in info.name]

    def rows(self, first: int = 0, end: int | None = None) -> list[Row]:
        """Those from `first` to before `end`, in order."""
        if self.sort == "name":  # the usual order needs no rows beyond those that are seen
            return list(map(row_of, sorted(self.shown, key=attrgetter("name"))[first:end]))
        return sorted(map(row_of, self.shown), key=SORTS[self.sort])[first:end]

    def waits(self) -> Iterator[str]:
        """`web-9:14 -> order:42 -> web-3:811`, a line for each holder that waits; a circle is marked."""
        for info in self.infos.values():
            for holder in info.holders:
                if holder.waits_for is not None:
                    yield self._path(info.name, holder.waits_for, holder_text(holder))

    def _path(self, begin: str, wanted: str, who: str) -> str:
        words, seen = [who], {begin}
        name: str | None = wanted
        while name is not None:
            words.append(name)
            if name in seen:
                return f"{' -> '.join(words)}  CYCLE"
            seen.add(name)
            info = self.infos.get(name)
            if info is None or not info.holders:
                break
            words.append(holder_text(info.holders[0]))
            name = info.holders[0].waits_for
        return " -> ".join(words)
