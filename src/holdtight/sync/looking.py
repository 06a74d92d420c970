"""A fast path for requests that only read: see base/plan.py."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hiredis

from holdtight.base.plan import LinkDown
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.sync.locks import Locks

__all__ = ["look"]


def look(locks: "Locks", requests: Sequence[bytes], name: str) -> list[Any] | None:
    """Sends requests that only read, in one write, on a connection that is idle. None if there is none, or if a reply
    is unusual: the plan then asks again. Raises what the plan would raise."""
    place, transport = locks.place, locks.transport
    client = place.client
    if not place.reads_by_any_link or (client.known and place.clock() > client.recorded_until):
        return None
    try:
        link = transport.idle.pop()
    except IndexError:
        return None
    try:
        found = link.call_all(requests, LONGEST_PATIENCE)
    except LinkDown as down:
        transport.lose(link, down)
        if down.stale:
            return None
        raise locks.meaning(down, name) from down
    except BaseException:
        transport.scrap(link)
        raise
    transport.give(link)
    return None if hiredis.ReplyError in map(type, found) else found
