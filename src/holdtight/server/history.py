"""What happened to locks by way of this service: kept on the lock server, bounded, written behind the answers.

`holdtight.history.install` writes the same for programs that use the library.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from holdtight.base.values import Owner
from holdtight.errors import LockError
from holdtight.ops.history import Notes
from holdtight.server.minutes import Minutes
from holdtight.server.shapes import digits
from holdtight.server.tail import Tail

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["History"]

EVERY = 0.2


class History:
    def __init__(self, service: "Service") -> None:
        self._service = service
        self._store: Any = service.locks.place.history
        self.minutes = Minutes(service, self._store)
        self.tail = Tail(service, self._store)
        self._notes = Notes()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()

    def note(
        self,
        kind: str,
        name: str | None = None,
        fence: int | None = None,
        by: str | None = None,
        *,
        owner: Owner | None = None,
        **more: Any,
    ) -> None:
        now = self._service.now
        held = now - fence / 1e6 if fence and kind == "released" else None
        self._notes.note(kind, now, name, fence, by, held=held, owner=owner, **more)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._flush)

    def _flush(self) -> None:
        self._timer = None
        task = asyncio.get_running_loop().create_task(self.write())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def write(self) -> None:
        """Writes the pending entries, and drops those that cannot be written: they are history, not state."""
        events, counts = self._notes.take()
        for event in events:
            if "owner" in event:
                event["owner"] = digits(event["owner"])
        for at in range(0, len(events) or 1, 500):
            steps = self._store.add_steps(events[at : at + 500], counts if at == 0 else {})
            try:
                await self._service.ask_all(steps)
            except (LockError, RuntimeError):
                return

    def end(self) -> None:
        self.ended.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._flush()

    # Reading

    async def last(self, most: int) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = await self._service.ask(self._store.last_step(most))
        return found
