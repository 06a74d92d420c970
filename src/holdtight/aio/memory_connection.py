"""A connection on one event loop to a store in this process: every request is answered at once.

A request takes no turn of the loop, like acquiring a free `asyncio.Lock`; only a task that must wait yields to others.
Bells come from any thread and are delivered on the loop, in order.
"""

import asyncio
import weakref
from typing import Any, cast

from holdtight.aio.connection import Connection
from holdtight.base.plan import CLOSED, LinkDown
from holdtight.stores.memory.link import MemoryLink
from holdtight.stores.redis.link import bell_in

__all__ = ["LocalConnection"]


class LocalConnection(Connection):
    def _attach(self) -> None:
        runtime, loop, me = self._runtime, self._loop, weakref.ref(self)

        def ring(message: bytes) -> None:
            connection = me()
            if connection is not None:
                connection._ring(*bell_in(message))

        def hear(message: bytes) -> None:
            runtime.call_soon(loop, ring, message)

        cast(MemoryLink, self._link).listen(hear)

    def _detach(self) -> None: ...

    def ask(self, request: bytes, patience: float) -> "asyncio.Future[Any]":
        """Returns a future that already has the reply, or LinkDown."""
        future = self._new_future()
        if self.alive:
            future.set_result(self._link.call(request, patience))
        else:
            future.set_exception(LinkDown(CLOSED, sent=False))
        return future
