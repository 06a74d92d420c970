"""A client's connections, one for each event loop that it is used on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdtight.aio.transport import Transport
    from holdtight.stores.boundary import Place

__all__ = ["PerLoop", "let_go"]


class PerLoop:
    """Works on several loops, one after another or at the same time in different threads."""

    place: Place
    closed: bool
    latest: Transport | None
    """The transport of the last call: nearly always the one that the next call needs."""

    def open_loops(self, place: Place, connect_timeout: float) -> None:
        self.place = place
        self.latest = None
        self._connect_timeout = connect_timeout
        self._transports: list[Transport] = []

    def transport(self) -> Transport:
        """The transport of the running loop."""
        loop = asyncio.get_running_loop()
        latest = self.latest
        if latest is not None and latest.loop is loop:
            return latest
        return self._transport_of(loop)

    def _transport_of(self, loop: asyncio.AbstractEventLoop) -> Transport:
        found: Transport | None = None
        for each in list(self._transports):
            if each.loop is loop:
                found = each
            elif each.loop.is_closed():
                try:
                    self._transports.remove(each)
                except ValueError:
                    continue  # another thread's loop removed it first
                each.close()
        if found is None:
            found = self._new_transport(loop)
            self._transports.append(found)
            found.closed = self._is_over()  # after the append: a close() from now on finds it in the list
        self.latest = found
        return found

    def _is_over(self) -> bool:
        return self.closed

    def _new_transport(self, loop: asyncio.AbstractEventLoop) -> Transport:
        from holdtight.aio.transport import Transport  # loaded with the first client

        return Transport(self.place, loop, connect_timeout=self._connect_timeout)

    def _others(self) -> Iterable[PerLoop]:
        """Of a client of a cluster: the connections to its servers."""
        return ()

    def abandon_loops(self) -> None:
        """In a forked child: each connection has already abandoned its socket, sending nothing."""
        self._transports.clear()
        self.latest = None
        for each in self._others():
            each.abandon_loops()

    def refuse_waiters(self) -> None:
        for transport in list(self._transports):
            _on_its_loop(transport, transport.refuse)
        for each in self._others():
            each.refuse_waiters()

    def close_loops(self) -> None:
        """Connections of other loops are closed on those loops, soon."""
        transports, self._transports = self._transports, []
        self.latest = None
        for transport in transports:
            _on_its_loop(transport, transport.close)
        for each in self._others():
            each.close_loops()

    def discard_loops(self) -> None:
        """Closes connections whose loops run no more."""
        transports, self._transports = self._transports, []
        self.latest = None
        for transport in transports:
            transport.close()
        for each in self._others():
            each.discard_loops()

    def let_go(self) -> None:
        let_go(list(self._transports))


def _on_its_loop(transport: Transport, what: Callable[[], None]) -> None:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if transport.loop is here or transport.loop.is_closed():
        what()
    else:
        try:
            transport.loop.call_soon_threadsafe(what)
        except RuntimeError:
            what()  # its loop was closed just now


def let_go(transports: list[Transport], others: Callable[[], Iterable[PerLoop]] = tuple) -> None:
    """Called by a finalizer after the client was dropped: closes the connections, each on its loop."""
    for each in others():
        each.let_go()
    for transport in transports:
        if transport.loop.is_closed():
            transport.let_go()
        else:
            transport.place.runtime.call_soon(transport.loop, transport.let_go)
