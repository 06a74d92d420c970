"""Checks a blocking wait in a thread that runs an event loop: the wait stops the loop and all of its tasks."""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from holdtight.base import process
from holdtight.base.identity import Identity, blocks_around, running_loop
from holdtight.base.values import Owner
from holdtight.clients.lock import BaseLock
from holdtight.errors import DeadlockDetected
from holdtight.grants.tenure import Tenure

__all__ = ["in_a_loop"]

_PACKAGE = __name__.partition(".")[0]
_warned = False


def in_a_loop(lock: BaseLock) -> Callable[[Owner | None], None] | None:
    """The check to run before a blocking wait; None if no event loop runs in this thread."""
    loop = running_loop()
    return None if loop is None else partial(_check, lock, loop)


def _check(lock: BaseLock, loop: Any, holder: Owner | None) -> None:
    """Raises DeadlockDetected if the lock is held in a block that only this loop can leave: the wait would stop the
    loop. A time limit on the wait does not change that. Otherwise warns, the first time."""
    inside: dict[Owner, tuple[Tenure, Identity]] = {}
    for who, key, lease in blocks_around(loop):
        tenure: Tenure = lease.tenure
        # Match the owner that the server reports, for leases of other clients. Match client and name, for readers and
        # permits, of which the server reports only one.
        here = tenure.name == lock.name and (tenure.owner == holder or key == lock.key)
        if here and tenure.epoch == process.current.epoch and tenure.alive and not tenure.lost():
            inside[tenure.owner] = tenure, who
    if inside and lock.is_kept_out_by([tenure for tenure, _ in inside.values()]):
        _, who = inside.get(holder or b"") or next(iter(inside.values()))
        raise DeadlockDetected.with_loop(lock.name, who.display() if who.task is not None else "this very thread")
    _warn(lock.name)


def _warn(name: str) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    depth, frame = 1, sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(
        f"waiting for lock {name!r} with a blocking call stops the event loop that runs in this thread, and all of its "
        "tasks. In asyncio code use AsyncLocks (async with), or call blocking code with asyncio.to_thread(). This is "
        "said once",
        RuntimeWarning,
        stacklevel=depth,
    )
