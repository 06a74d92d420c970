"""The list of all locks, kept while somebody looks: read at most every second, and in a tenth of the time."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdtight.base.values import LockInfo, Owner, owner_text
from holdtight.server.principal import Principal
from holdtight.server.shapes import holder_dict, info_row

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["Survey"]

LEAST_PAUSE = 1.0
AT_ONCE = 250
SHARE = 10
"""A list that took t seconds is read again after SHARE times t at the earliest."""


class Survey:
    def __init__(self, service: "Service") -> None:
        self._service = service
        self.infos: list[LockInfo] = []
        self.rows: list[dict[str, Any]] = []
        self.at = 0.0
        """The lock server's time of the list."""
        self.rev = 0
        self.took = 0.0
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._state: Any = None
        self._ordered: dict[tuple[str, bool], list[dict[str, Any]]] = {}

    async def fresh(self) -> None:
        """Returns when the list is as fresh as it may be. All who ask meanwhile share one reading."""
        if self._reading is None:
            pause = max(LEAST_PAUSE, SHARE * self.took)
            if time.monotonic() - self._read_at < pause:
                return
            self._reading = asyncio.create_task(self._read())
        await asyncio.shield(self._reading)

    def stale(self) -> None:
        """What the service itself has changed shows at once."""
        self._read_at = float("-inf")

    async def _read(self) -> None:
        begun = time.monotonic()
        try:
            infos = [info async for info in self._service.locks.list()]
            infos.sort(key=lambda info: info.name)
            at = self._service.now
            rows: list[dict[str, Any]] = []
            state: list[Any] = []
            for start in range(0, len(infos), AT_ONCE):  # a long list must not hold up the requests of others
                for info in infos[start : start + AT_ONCE]:
                    rows.append(info_row(info, at))
                    state.append((info.name, info.fence, info.waiting, [each.waits_for for each in info.holders]))
                await asyncio.sleep(0)
            self.at, self.infos, self.rows, self._ordered = at, infos, rows, {}
            if state != self._state:
                self._state = state
                self.rev += 1
        finally:
            self._reading = None
            self._read_at = time.monotonic()
            self.took = self._read_at - begun

    def seen_by(self, principal: Principal, prefix: str = "") -> list[dict[str, Any]]:
        if not principal.prefixes and not prefix:
            return self.rows
        return [row for row in self.rows if row["name"].startswith(prefix) and principal.sees(row["name"])]

    def ordered(self, by: str, key: Callable[[dict[str, Any]], Any], down: bool) -> list[dict[str, Any]]:
        """All rows, sorted by a key that is called `by`: sorted once for all who look at this list."""
        found = self._ordered.get((by, down))
        if found is None:
            found = sorted(self.rows, key=lambda row: (key(row), row["name"]), reverse=down)
            self._ordered[by, down] = found
        return found

    def totals(self, principal: Principal, prefix: str = "") -> dict[str, int]:
        rows = self.seen_by(principal, prefix)
        return {
            "held": sum(1 for row in rows if row["held"]),
            "waiting": sum(row["waiting"] for row in rows),
        }

    async def holder(self, owner: Owner | None, name: str, left: float) -> dict[str, Any] | None:
        """What is known of the holder that a waiter was told of."""
        if owner is None:
            return None
        info = await self._service.locks.inspect(name)
        text = owner_text(owner)
        found = next((each for each in info.holders if each.owner == text), None)
        if found is None:
            return {"host": None, "pid": None, "label": None, "since": None, "left": round(left, 3)}
        return holder_dict(found)
