"""A multiplexed connection to one server of a cluster, which listens to channels of the names that its tasks wait for.

The server confirms SSUBSCRIBE by a message, but refuses it in line, like any request. So a PING goes behind it: an
error and then the PONG mean a refusal, the message and then the PONG mean that the connection listens. The server may
refuse the PING too, and the SUNSUBSCRIBE that makes room before both. Which request an error answers follows from what
came before it. Where it does not, the connection ends: with one reply too many or too few on its account, each later
request would get the answer to another one.
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
_UNCLEAR = "it is not clear which request the server refused"


class _Listening:
    """Takes the place of a future among the requests under way. Its result is the refusal, or None."""

    refusal: str | None = None
    listens = False
    """The server has confirmed the channel."""
    _left = False
    """The server has ended the other subscription, before any error: it was asked to, or the slot left just then."""
    _errors = 0

    def __init__(self, future: "asyncio.Future[str | None]", channel: bytes, leaving: bytes | None) -> None:
        """`leaving`: the channel of the SUNSUBSCRIBE before, or None if there is none."""
        self.future = future
        self._channel = channel
        self._leaving = leaving

    def hear(self, what: bytes, channel: bytes) -> None:
        """A message came while the server answered these requests."""
        if what == b"ssubscribe" and channel == self._channel:
            self.listens, self.refusal = True, None  # an error before it was about the other channel
        elif what == b"sunsubscribe" and channel == self._leaving and not self._errors:
            self._left = True

    def ends_with(self, error: Exception) -> bool:
        """Whether this error answers the PING. Raises LinkDown if that cannot be told."""
        self._errors += 1
        if self.listens:
            return True
        before = 0 if self._leaving is None or self._left else 1
        if self._errors == before + 1:
            self.refusal = str(error)
        elif self._errors > before + 1:
            if self._left:  # the slot may have left by itself: then all three are refused, and one more is to come
                raise LinkDown(_UNCLEAR, sent=True)
            return True
        return False

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
        request, idle = command("SSUBSCRIBE", channel) + _PING, None
        if len(self.channels) >= MOST_CHANNELS:
            idle = next((each for each in self.channels if each not in self._waiting_on.values()), None)
            if idle is not None:
                del self.channels[idle]
                request = command("SUNSUBSCRIBE", idle) + request
        listening = _Listening(self._new_future(), channel, idle)
        if not self.add(listening, request, self._clock() + patience):
            raise LinkDown(CLOSED, sent=False)
        refusal = await listening.future
        if refusal is None and not listening.listens:
            down = LinkDown("it neither let us listen nor refused to", sent=False)
            self.fail(down)
            raise down
        return refusal

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
        unclear: LinkDown | None = None
        for item in items:
            if item.__class__ is _Push:
                self._hear(item, len(ordinary))
                continue
            listening = self._listening_at(len(ordinary)) if isinstance(item, _Error) else None
            try:
                if listening is None or listening.ends_with(item):
                    ordinary.append(item)
            except LinkDown as down:
                unclear = down
                break
        super()._take(ordinary)
        if unclear is not None:
            self.fail(unclear)

    def _listening_at(self, at: int) -> _Listening | None:
        """What the server answers next, after so many replies more, if that is a request to listen."""
        owed = self._pending[at] if at < len(self._pending) else None
        return owed if isinstance(owed, _Listening) else None

    def _hear(self, push: Any, at: int) -> None:
        what, channel = push[0], push[1]
        if what in (b"ssubscribe", b"sunsubscribe") and (listening := self._listening_at(at)) is not None:
            listening.hear(what, channel)
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
