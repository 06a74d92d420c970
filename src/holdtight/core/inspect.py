"""The plan behind `inspect`: reads the name's state, then the records of the clients that appear in it."""

import base64
from collections.abc import Generator
from typing import Any, Protocol

from holdtight.base.plan import Plan, ServerSaid, Step, Wish
from holdtight.base.values import LISTED, Holder, LockInfo, Owner, Waiter
from holdtight.core.again import read_again

__all__ = ["Inspected", "Records", "glance", "look", "named", "owners_in", "records_of", "told"]

About = dict[str, Any]


class Records(Protocol):
    def records_step(self, owners: list[Owner], holding: int = 0) -> Step: ...


class Inspected(Protocol):
    def inspect_step(self, most: int) -> Step: ...


def look(records: Records, lock: Inspected, entered: dict[str, int], most: int = LISTED) -> Plan[LockInfo]:
    """`entered` maps our own owners to their number of entries."""
    info = yield from glance(lock, most)
    owners = owners_in(info)
    if not owners:
        return info
    return named(info, (yield from records_of(records, owners, len(info.holders))), entered)


def glance(lock: Inspected, most: int) -> Plan[LockInfo]:
    """The name's state alone."""
    info: LockInfo = yield from read_again(lock.inspect_step(most))
    return info


def owners_in(info: LockInfo) -> list[Owner]:
    """The holders, then the waiters."""
    everybody: list[Holder | Waiter] = [*info.holders, *info.waiters]
    return [base64.urlsafe_b64decode(each.owner) for each in everybody]


def records_of(records: Records, owners: list[Owner], holding: int) -> Generator[Wish, Any, list[About]]:
    """What the server knows of each owner; of the first `holding` owners also what they wait for. A user that may not
    read those records gets what it may read."""
    for count in dict.fromkeys((holding, 0)):
        try:
            found: list[About] = yield records.records_step(owners, count)
            return found
        except ServerSaid as said:
            if not said.lacks_right:
                raise
    return [{} for _ in owners]


def named(info: LockInfo, found: list[About], entered: dict[str, int]) -> LockInfo:
    """Adds what `found` has for each of `owners_in(info)`."""
    count = len(info.holders)
    return info._replace(
        holders=tuple(told(each, about, entered) for each, about in zip(info.holders, found, strict=False)),
        waiters=tuple(_waiter(each, about) for each, about in zip(info.waiters, found[count:], strict=True)),
    )


def told(each: Holder, about: About, entered: dict[str, int]) -> Holder:
    """Adds what the records say of one holder."""
    return each._replace(
        host=about.get("host"),
        pid=about.get("pid"),
        waits_for=about.get("waits_for"),
        entered=entered.get(each.owner),
    )


def _waiter(each: Waiter, about: About) -> Waiter:
    return each._replace(host=about.get("host"), pid=about.get("pid"))
