"""The record of a client, as a keeper connection keeps it: it shows people who inspect a lock which process that is."""

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any

from holdtight.keeper.charges import SILENCE, RecordRequest
from holdtight.stores.boundary import Place
from holdtight.stores.client import RECORD_GOOD
from holdtight.stores.redis.client_records import record_request

if TYPE_CHECKING:
    from holdtight.keeper.keeper import Charge, Keeper

__all__ = ["Recording"]

REFRESH_SECONDS = RECORD_GOOD / 2
IDLE_TICKS = 2


class Recording(ABC):
    """Part of a keeper connection."""

    place: Place
    _keeper: "Keeper"
    _connecting: bool
    waiting: "deque[tuple[Charge, float]]"
    _sent: deque[Any]
    _recorded = False
    _idle_ticks = 0
    _refresh_at = 0.0

    @abstractmethod
    def _close(self) -> None: ...

    def noted(self) -> None:
        """A new connection has just written the record, unless that has a slot of its own."""
        self._recorded = True
        self._idle_ticks = 0
        if self.place.client.sharded:
            self._write_record()
        self._refresh_at = self._keeper.clock() + REFRESH_SECONDS

    def keep_record(self, now: float, *, busy: bool) -> bool:
        """Refreshes the record while there are charges. Returns False if nothing is left to do.

        The record of an idle client expires by itself. A removal could arrive after the record that the next
        acquisition writes. An attempt that is under way relies on the record as long as `recorded_until` says: this
        goes on until then and for as long as a reply may take, so that it is refreshed if that attempt succeeds."""
        client = self.place.client
        for refresh in self.place.refreshers:
            refresh()
        if busy:
            self._idle_ticks = 0
            if client.known and now >= self._refresh_at:
                self._recorded = True
                self._refresh_at = now + REFRESH_SECONDS
                if not client.sharded:
                    client.recorded_until = self._refresh_at + REFRESH_SECONDS
                self._write_record()
            return True
        self._idle_ticks += 1
        if self._idle_ticks > IDLE_TICKS and not self._sent:
            self._close()
        if self.place.in_process and self._idle_ticks > IDLE_TICKS:
            client.recorded_until = 0.0  # nothing arrives late in this process: the next acquisition writes it anew
            return False
        if self._idle_ticks <= IDLE_TICKS or self._connecting:
            return True
        return not client.sharded and now <= client.recorded_until + 2 * SILENCE

    def _write_record(self) -> None:
        place = self.place.record_place
        request = RecordRequest(place, record_request(self.place.client))
        if place is self.place:
            self.waiting.append((request, self._keeper.clock()))
        else:
            self._keeper.ask(request)
