"""A fast path for requests that only read: see base/plan.py."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base.plan import LinkDown
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    import asyncio

    from holdtight.aio.locks import AsyncLocks

__all__ = ["asked", "look", "usual"]


def asked(locks: "AsyncLocks", requests: Sequence[bytes]) -> "asyncio.Future[list[Any]] | None":
    """Sends requests that only read, in one write, if there is a connection; else None. The future may end with
    LinkDown."""
    place = locks.place
    client = place.client
    if not place.reads_by_any_link or (client.known and place.clock() > client.recorded_until):
        return None
    connection = locks.transport().ready()
    if connection is None or locks.closed:
        return None
    return connection.ask_all(requests, LONGEST_PATIENCE)


def usual(replies: list[Any]) -> bool:
    """Whether no reply is an error: after one, the plan asks again."""
    return hiredis.ReplyError not in map(type, replies)


async def look(locks: "AsyncLocks", requests: Sequence[bytes], name: str) -> list[Any] | None:
    """The replies to requests that only read. None if there is no connection, or if a reply is unusual: the plan then
    asks again. Raises what the plan would raise."""
    future = asked(locks, requests)
    if future is None:
        return None
    try:
        found = await future
    except LinkDown as down:
        if down.stale:
            return None
        raise locks.meaning(down, name) from down
    return found if usual(found) else None
