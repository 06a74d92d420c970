"""The list of all locks, kept while somebody looks: read at most every second, and in a tenth of the time."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from holdtight.base.values import Holder, LockInfo, Owner, owner_text
from holdtight.server.principal import Principal
from holdtight.server.shapes import holder_dict, info_row
from holdtight.server.shared import Shared

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["Survey", "View"]

LEAST_PAUSE = 1.0
LOCKS_IN_A_TURN = 250
MOST_VIEWS = 64


class View(NamedTuple):
    """The part of the list that one caller sees. `state` changes whenever that part has changed."""

    rows: list[dict[str, Any]]
    held: int
    waiting: int
    state: int


class Survey:
    def __init__(self, service: "Service") -> None:
        self._service = service
        self.infos: list[LockInfo] = []
        self.awaiting: dict[str, list[tuple[Holder, str]]] = {}
        """By name: holders of other locks that wait for it, each with the lock that it holds."""
        self.rows: list[dict[str, Any]] = []
        self.at = 0.0
        """The lock server's time of the list."""
        self.rev = 0
        self._shared = Shared(self._read, LEAST_PAUSE)
        self._state: list[tuple[Any, ...]] = []
        self._ordered: dict[tuple[str, bool], list[dict[str, Any]]] = {}
        self._views: dict[tuple[tuple[str, ...], str], View] = {}

    @property
    def took(self) -> float:
        return self._shared.took

    async def fresh(self) -> None:
        """Returns when the list is as fresh as it may be. All who ask meanwhile share one reading."""
        await self._shared.get()

    def stale(self) -> None:
        self._shared.stale()

    async def _read(self) -> None:
        infos = [info async for info in self._service.locks.list()]
        infos.sort(key=lambda info: info.name)
        at = self._service.now
        rows: list[dict[str, Any]] = []
        state: list[tuple[Any, ...]] = []
        awaiting: dict[str, list[tuple[Holder, str]]] = {}
        before = {row["name"]: row for row in self.rows}
        for start in range(0, len(infos), LOCKS_IN_A_TURN):  # a long list must not hold up the requests of others
            for info in infos[start : start + LOCKS_IN_A_TURN]:
                rows.append(row := info_row(info, at))
                _settle(row, before.get(info.name))
                awaited = tuple(each.waits_for for each in info.holders)
                state.append((info.name, info.fence, info.waiting, awaited))
                for holder, name in zip(info.holders, awaited, strict=True):
                    if name is not None:
                        awaiting.setdefault(name, []).append((holder, info.name))
            await asyncio.sleep(0)
        self.at, self.infos, self.rows, self.awaiting = at, infos, rows, awaiting
        self._ordered, self._views = {}, {}
        if state != self._state:
            self._state = state
            self.rev += 1

    def view(self, principal: Principal, prefix: str = "") -> View:
        key = principal.prefixes, prefix
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= MOST_VIEWS:
                self._views.clear()
            found = self._views[key] = self._viewed(principal, prefix)
        return found

    def _viewed(self, principal: Principal, prefix: str) -> View:
        rows, state = self.rows, self.rev
        if principal.prefixes or prefix:
            seen = [at for at, row in enumerate(rows) if row["name"].startswith(prefix) and principal.sees(row["name"])]
            rows = [rows[at] for at in seen]
            told: list[tuple[Any, ...]] = []
            for name, fence, waiting, awaited in map(self._state.__getitem__, seen):
                told.append((name, fence, waiting, tuple(each and principal.sees(each) and each for each in awaited)))
            state = hash(tuple(told))
        return View(rows, sum(1 for row in rows if row["held"]), sum(row["waiting"] for row in rows), state)

    def ordered(self, by: str, key: Callable[[dict[str, Any]], Any], down: bool) -> list[dict[str, Any]]:
        """All rows, sorted by a key that is called `by`: sorted once for all who look at this list."""
        found = self._ordered.get((by, down))
        if found is None:
            found = sorted(self.rows, key=lambda row: (key(row), row["name"]), reverse=down)
            self._ordered[by, down] = found
        return found

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


def _settle(row: dict[str, Any], before: dict[str, Any] | None) -> None:
    """A lease that was not renewed ends when it was to end: what two readings differ by is their own time."""
    if before is None or row["expires"] is None or before["expires"] is None or row["fence"] != before["fence"]:
        return
    if abs(row["expires"] - before["expires"]) < LEAST_PAUSE:
        row["expires"] = before["expires"]
