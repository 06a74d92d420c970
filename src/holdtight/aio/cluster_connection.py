"""A multiplexed connection to one server of a cluster, which listens to channels of the names that its tasks wait for.

The server confirms SSUBSCRIBE by a message, but refuses it in line, like any request. So a PING goes behind it: an
error and then the PONG mean a refusal, the PONG alone means that the connection listens.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis

from holdtight.aio.connection import Connection
from holdtight.base.plan import CLOSED, SLOT_GONE, Bell, LinkDown
from holdtight.base.runtime import Runtime
from holdtight.base.values import Owner
from holdtight.stores.boundary import Link
from holdtight.stores.redis.link import bell_for
from holdtight.stores.redis.resp import command

__all__ = ["MOST_CHANNELS", "ClusterConnection"]

MOST_CHANNELS = 4096
_Push = hiredis.PushNotification
_Error = hiredis.ReplyError
_UNUSUAL = frozenset((_Push, _Error))
_PING = command("PING")


class _Listening:
    """Takes the place of a future among the requests under way. Its result is the refusal, or None."""

    refusal: str | None = None

    def __init__(self, future: "asyncio.Future[str | None]") -> None:
        self.future = future

    def done(self) -> bool:
        return self.future.done()

    def set_result(self, reply: Any) -> None:
        self.future.set_result(self.refusal)

    def set_exception(self, error: LinkDown) -> None:
        self.future.set_exception(error)
        self.future.exception()  # marks it as retrieved: if the loop ends first, there must be no warning


class ClusterConnection(Connection):
    def __init__(
        self, link: Link, loop: asyncio.AbstractEventLoop, runtime: Runtime, broken: Callable[[], None]
    ) -> None:
        """`broken` is called when the connection has failed."""
        super().__init__(link, loop, runtime)
        self._broken = broken
        self._closing = False
        self.channels: dict[bytes, None] = {}
        """What it listens to, the oldest first."""
        self._waiting_on: dict[Owner, bytes] = {}

    async def listen_to(self, channel: bytes, patience: float) -> str | None:
        """Returns why the server refuses; None once the connection listens. Raises LinkDown."""
        request = command("SSUBSCRIBE", channel) + _PING
        if len(self.channels) >= MOST_CHANNELS:
            idle = next((each for each in self.channels if each not in self._waiting_on.values()), None)
            if idle is not None:
                del self.channels[idle]
                request = command("SUNSUBSCRIBE", idle) + request
        future: asyncio.Future[str | None] = self._new_future()
        if not self.add(_Listening(future), request, self._clock() + patience):
            raise LinkDown(CLOSED, sent=False)
        return await future

    def fail(self, cause: LinkDown) -> None:
        if self.alive and not self._closing:
            self._broken()
        super().fail(cause)

    def close(self) -> None:
        self._closing = True
        super().close()

    def waits_on(self, owner: Owner, channel: bytes) -> None:
        self._waiting_on[owner] = channel

    async def park(self, owner: Owner, until: float) -> Bell | None:
        try:
            return await super().park(owner, until)
        finally:
            self._waiting_on.pop(owner, None)

    def _end_turn(self) -> None:
        """Sends after one turn more. What one server answers makes requests to all of them: those that the answers of
        other servers, which are there already, are about to make leave in the same write."""
        self._call_soon(self._flush)

    def _take(self, items: list[Any]) -> None:
        if _UNUSUAL.isdisjoint(map(type, items)):
            super()._take(items)
            return
        ordinary: list[Any] = []
        for item in items:
            if item.__class__ is _Push:
                self._hear(item)
            elif isinstance(item, _Error) and self._refuses(len(ordinary), item):
                continue
            else:
                ordinary.append(item)
        super()._take(ordinary)

    def _refuses(self, at: int, error: Exception) -> bool:
        """Whether this is the refusal before the PONG, which is then to come."""
        owed = self._pending[at] if at < len(self._pending) else None
        if not isinstance(owed, _Listening) or owed.refusal is not None:
            return False
        owed.refusal = str(error)
        return True

    def _hear(self, push: Any) -> None:
        what, channel = push[0], push[1]
        if what == b"ssubscribe":
            self.channels[channel] = None
        elif what == b"sunsubscribe":
            # Asked for, or the slot has left: its waiters look at its new server.
            if self.channels.pop(channel, self) is not self:
                for owner in [owner for owner, each in self._waiting_on.items() if each == channel]:
                    listener = self._listeners.pop(owner, None)
                    if listener is not None and not listener.done():
                        listener.set_exception(LinkDown(SLOT_GONE, sent=False))
        else:
            rung = bell_for(push)
            if rung is not None:
                self._ring(*rung)
