"""What happened to locks by way of this service: kept on the lock server, bounded, written behind the answers.

`holdtight.history.install` writes the same for programs that use the library.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdtight.base.values import Owner
from holdtight.errors import LockError
from holdtight.ops.history import BUCKETS, Notes
from holdtight.server.shapes import digits

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["History", "percentiles", "summary"]

EVERY = 0.2
_SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


class History:
    def __init__(self, service: "Service") -> None:
        self._service = service
        self._store: Any = service.locks.place.history
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
        """Writes what is pending. What cannot be written is dropped: it is history, not state."""
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

    async def since(self, after: str, most: int = 500) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = await self._service.ask(self._store.read_step(after, most))
        return found

    async def last(self, most: int) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = await self._service.ask(self._store.last_step(most))
        return found

    async def minutes(self, number: int) -> dict[int, dict[str, int]]:
        """The counts of the last minutes, oldest first."""
        last = int(self._service.now // 60)
        wanted = range(last - number + 1, last + 1)
        answers = await self._service.ask_all([self._store.stats_step(each) for each in wanted])
        return {each: found for each, found in zip(wanted, answers, strict=True) if isinstance(found, dict)}


def summary(minutes: Iterable[dict[str, int]], what: str, template: str) -> dict[str, Any]:
    """Percentiles of waiting ("w") or holding ("h"), from the buckets."""
    buckets = [0] * BUCKETS
    for counts in minutes:
        for at in range(BUCKETS):
            buckets[at] += counts.get(f"{what}:{at}:{template}", 0)
    total = sum(buckets)
    found: dict[str, Any] = {"n": total, "buckets": buckets}
    for word, share in _SHARES:
        found[word] = _percentile(buckets, total, share)
    return found


def percentiles(counts: dict[str, int], what: str) -> dict[str, float | None]:
    """Of all names in one minute."""
    buckets = [0] * BUCKETS
    for field, number in counts.items():
        if field.startswith(f"{what}:"):
            buckets[int(field.split(":", 2)[1])] += number
    total = sum(buckets)
    return {word: _percentile(buckets, total, share) for word, share in _SHARES}


def _percentile(buckets: list[int], total: int, share: float) -> float | None:
    """As if all that a bucket has were spread evenly over it."""
    before, wanted = 0, share * total
    for at, number in enumerate(buckets):
        if number and before + number >= wanted:
            most = float(1 << at)
            least = most / 2 if at else 0.0
            return (least + (most - least) * (wanted - before) / number) / 1000
        before += number
    return None
