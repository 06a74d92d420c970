"""A fast path for requests that only read: see base/plan.py."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base.plan import LinkDown
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.aio.locks import AsyncLocks

__all__ = ["look"]


async def look(locks: "AsyncLocks", requests: Sequence[bytes], name: str) -> list[Any] | None:
    """Sends requests that only read, in one write, if there is a connection. None if there is none, or if a reply is
    unusual: the plan then asks again. Raises what the plan would raise."""
    place = locks.place
    client = place.client
    if place.at_once or place.topology != "server" or (client.known and place.clock() > client.recorded_until):
        return None
    connection = locks.transport().ready()
    if connection is None or locks.closed:
        return None
    try:
        found = await connection.ask_all(requests, LONGEST_PATIENCE)
    except LinkDown as down:
        if down.stale:
            return None
        raise locks.meaning(down, name) from down
    return None if hiredis.ReplyError in map(type, found) else found
