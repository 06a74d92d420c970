"""Watches for a change of leader: all polls and streams on a lock share one look at it, four times a second."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from holdtight.base.values import LockInfo
from holdtight.server.shapes import holder_dict
from holdtight.server.shared import Shared

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["LOOK_EVERY", "Leaders", "leader_of"]

LOOK_EVERY = 0.25


def leader_of(info: LockInfo) -> dict[str, Any]:
    """The exclusive holder. A fence of 0: there is none."""
    if len(info.holders) != 1 or info.holders[0].kind.value != "exclusive":
        return {"leader": None, "fence": 0}
    holder = info.holders[0]
    return {"leader": {**holder_dict(holder), "fence": holder.fence}, "fence": holder.fence or 0}


class Leaders:
    def __init__(self, service: "Service") -> None:
        self._service = service
        self._watched: dict[str, tuple[Shared[dict[str, Any]], list[None]]] = {}

    async def look(self, name: str) -> dict[str, Any]:
        return leader_of(await self._service.locks.inspect(name))

    @contextmanager
    def watching(self, name: str) -> Generator[Shared[dict[str, Any]]]:
        """A look that is shared with all who watch this lock."""
        known = self._watched.get(name)
        if known is None:
            known = self._watched[name] = Shared(partial(self.look, name), LOOK_EVERY * 0.9), []
        shared, watchers = known
        watchers.append(None)
        try:
            yield shared
        finally:
            watchers.pop()
            if not watchers:
                del self._watched[name]
