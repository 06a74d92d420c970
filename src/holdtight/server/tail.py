"""Recent events, read once for all who look at them: event streams and the timelines of locks."""

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any

from holdtight.server.shared import Shared

if TYPE_CHECKING:
    from holdtight.server.service import Service

__all__ = ["Tail"]

PAUSE = 0.2
EVENTS_IN_A_READ = 500
MOST = 20_000
OF_A_NAME = 50

Event = dict[str, Any]
Key = tuple[int, int]


class Tail:
    """The events that the lock server still has, kept from the first look on."""

    def __init__(self, service: "Service", store: Any) -> None:
        self._service = service
        self._store = store
        self._events: list[tuple[Key, str, Event]] = []
        self._of: dict[str, deque[tuple[str, Event]]] = {}
        self._last = "0-0"
        self._shared = Shared(self._read, PAUSE, share=1)

    async def of(self, name: str) -> list[Event]:
        """The last events of a lock, newest first, each with its id."""
        await self._shared.get()
        found: list[Event] = [{"id": id_, **event} for id_, event in reversed(self._of.get(name, ()))]
        found.sort(key=lambda event: float(event["at"]), reverse=True)  # processes write a little later than it happens
        return found

    async def since(self, after: str, most: int) -> tuple[list[tuple[str, Event]], bool]:
        """Events after the id `after`, oldest first, and whether some are missing because they are no longer kept."""
        await self._shared.get()
        key = key_of(after)
        start = bisect_right(self._events, key, key=lambda each: each[0])
        found = [(id_, event) for _, id_, event in self._events[start : start + most]]
        skipped = key != (0, 0) and len(self._events) >= MOST and key < self._events[0][0]
        return found, skipped

    async def _read(self) -> None:
        while True:
            known = self._last != "0-0"  # then the last one that we have comes first
            after = _before(self._last) if known else self._last
            some: list[tuple[str, Event]] = await self._service.ask(self._store.read_step(after, EVENTS_IN_A_READ))
            if known and (not some or some[0][0] != self._last):
                self._events, self._of, self._last = [], {}, "0-0"  # it was emptied, or we come late: read it all anew
                continue
            full = len(some) == EVENTS_IN_A_READ
            some = some[known:]
            for id_, event in some:
                self._events.append((key_of(id_), id_, event))
                name = event.get("name")
                if name is not None:
                    self._of.setdefault(name, deque(maxlen=OF_A_NAME)).append((id_, event))
            if some:
                self._last = some[-1][0]
            if len(self._events) > MOST + EVENTS_IN_A_READ:
                self._drop(len(self._events) - MOST)
            if not full:
                return

    def _drop(self, number: int) -> None:
        for _, id_, event in self._events[:number]:
            name = event.get("name")
            found = self._of.get(name) if name is not None else None
            if found and found[0][0] == id_:
                found.popleft()
                if not found:
                    del self._of[event["name"]]
        del self._events[:number]


def _before(id_: str) -> str:
    """The largest id that is smaller."""
    ms, number = key_of(id_)
    return f"{ms}-{number - 1}" if number else f"{ms - 1}-{2**64 - 1}"


def key_of(id_: str) -> Key:
    ms, _, number = id_.partition("-")
    return int(ms), int(number or 0)
