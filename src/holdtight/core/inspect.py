"""The plan behind `inspect`: reads the name's state, then the records of the clients that appear in it."""

import base64
from typing import Any, Protocol

from holdtight.base.plan import LinkDown, Plan, Step
from holdtight.base.values import Holder, LockInfo, Owner, Waiter

__all__ = ["look"]


class Records(Protocol):
    def records_step(self, owners: list[Owner]) -> Step: ...


class Inspected(Protocol):
    def inspect_step(self) -> Step: ...


def look(records: Records, lock: Inspected, entered: dict[str, int]) -> Plan[LockInfo]:
    """`entered` maps our own owners to their number of entries."""
    try:
        info: LockInfo = yield lock.inspect_step()
    except LinkDown as down:
        if not down.stale:
            raise
        info = yield lock.inspect_step()
    everybody: list[Holder | Waiter] = [*info.holders, *info.waiters]
    if not everybody:
        return info
    found: list[dict[str, Any]] = yield records.records_step(
        [base64.urlsafe_b64decode(each.owner) for each in everybody]
    )
    named = [
        each._replace(host=about.get("host"), pid=about.get("pid"))
        for each, about in zip(everybody, found, strict=True)
    ]
    count = len(info.holders)
    holders = tuple(
        each._replace(entered=entered.get(each.owner)) for each in named[:count] if isinstance(each, Holder)
    )
    waiters = tuple(each for each in named[count:] if isinstance(each, Waiter))
    return info._replace(holders=holders, waiters=waiters)
