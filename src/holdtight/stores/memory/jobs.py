"""The scripts of jobs, in Python: the memory store runs them, and they specify the Lua scripts.

Each gets the lock, the stored values, the keys of the request, and its arguments.
"""

from collections.abc import Callable
from typing import Any

from holdtight.base.plan import ServerSaid
from holdtight.stores.memory.engine import Name
from holdtight.stores.memory.shelf import Shelf
from holdtight.stores.memory.state import Main
from holdtight.stores.redis import flights, proclaiming, records
from holdtight.stores.redis.fields import cut
from holdtight.stores.times import SPOIL_MS

__all__ = ["flight_drop", "flight_land", "job_verb", "once_begin", "once_end", "proclaim"]

Reply = Any
Job = Callable[..., Reply]


def once_begin(
    name: Name,
    shelf: Shelf,
    keys: list[bytes],
    owner: bytes,
    keep: bytes,
    every_start: bytes,
    about: bytes,
    not_after: bytes,
) -> Reply:
    main = _held(name, owner, not_after)
    if not isinstance(main, Main):
        return main
    record = keys[1]
    stands = shelf.get(record, name.now)
    if stands:
        if cut("KIND_OF", stands) != b"o1":
            raise ServerSaid("HTFOREIGN the key holds a value that is not a record of this format")
        if cut("RUN_OWNER_OF", stands) == owner:
            return [1, cut("RUN_STARTED_OF", stands)]
        if every_start == b"1" or cut("RUN_STATE_OF", stands) == b"d":
            return [2, stands, shelf.left(record, name.now)]
    started = b"%016d" % name.now_us
    shelf.put(record, b"o1r%b%016d%b%016d%b" % (owner, main.fence, started, 0, about), name.now + int(keep))
    return [1, started]


def once_end(name: Name, shelf: Shelf, keys: list[bytes], owner: bytes, state: bytes, about: bytes) -> Reply:
    (record,) = keys
    value = shelf.get(record, name.now)
    if not value or cut("FRONT_OF", value) != b"o1r" or cut("RUN_OWNER_OF", value) != owner:
        return 0
    if not state:
        return int(shelf.drop(record, name.now))
    shelf.replace(record, b"o1%b%b%016d%b" % (state, cut("RUN_BODY_OF", value), name.now_us, about))
    return 1


def flight_land(
    name: Name,
    shelf: Shelf,
    keys: list[bytes],
    owner: bytes,
    kind: bytes,
    fresh: bytes,
    stale: bytes,
    payload: bytes,
    not_after: bytes,
) -> Reply:
    _, value, failure = keys
    main = _held(name, owner, not_after)
    if not isinstance(main, Main):
        return main
    mark = _checked(shelf, keys, name.now)
    if mark == b"e1s" + owner:
        return 2
    if name.now_us - main.fence > (SPOIL_MS - 60_000) * 1000:
        return 2
    if kind == b"f":
        shelf.put(failure, b"e1f" + payload, name.now + int(fresh))
        return 1
    times = int(fresh), int(stale)
    shelf.put(value, b"v1%b%012d%012d%b" % (kind, *times, payload), name.now + sum(times))
    if mark:
        shelf.drop(failure, name.now)
    return 1


def flight_drop(name: Name, shelf: Shelf, keys: list[bytes], how: bytes, not_after: bytes) -> Reply:
    _, value, failure = keys
    now = name.now
    if name.now_us > int(not_after):
        return [-1, now]
    mark = _checked(shelf, keys, now)
    if name.holder:
        shelf.put(failure, b"e1s" + name.holder, now + SPOIL_MS)
    elif mark:
        shelf.drop(failure, now)
    stored = shelf.get(value, now)
    if not stored:
        return 0
    stale = int(cut("STALE_OF", stored))
    if how == b"gone" or not stale:
        return int(shelf.drop(value, now))
    if shelf.left(value, now) <= stale:
        return 0
    shelf.expire(value, now + stale)
    return 1


def proclaim(name: Name, shelf: Shelf, keys: list[bytes], owner: bytes, label: bytes, not_after: bytes) -> Reply:
    main = _held(name, owner, not_after)
    if not isinstance(main, Main):
        return main
    main.label = label
    return 1


def _held(name: Name, owner: bytes, not_after: bytes) -> Main | list[Any]:
    """The main record if this owner holds the lock, else the answer to a request that is late or not the holder's."""
    if name.now_us > int(not_after):
        return [-1, name.now]
    if not name.holder or not name.main:
        return [0, b""]
    return name.main if name.holder == owner else [0, name.holder]


def _checked(shelf: Shelf, keys: list[bytes], now: int) -> bytes | None:
    """The failure, or the mark of an invalidation."""
    stored, mark = shelf.get(keys[1], now), shelf.get(keys[2], now)
    if (stored and cut("KIND_OF", stored) != b"v1") or (mark and cut("KIND_OF", mark) != b"e1"):
        raise ServerSaid("HTFOREIGN the key holds a value that is not of this format")
    return mark


_JOBS: dict[bytes, Job] = {}
for _script, _job in (
    (records.BEGIN, once_begin),
    (records.END, once_end),
    (flights.LAND, flight_land),
    (flights.DROP, flight_drop),
    (proclaiming.PROCLAIM, proclaim),
):
    _JOBS[_script.sha.encode()] = _JOBS[_script.body] = _job


def job_verb(which: bytes) -> Job | None:
    """`which` is the hash of a script, or its body."""
    return _JOBS.get(which)
