"""The history of locks, for the page of the lock service. See docs/serving.md."""

import weakref
from typing import Any

from holdtight.clients.client import BaseLocks
from holdtight.ops.history import HistorySink
from holdtight.ops.recorder import check_client, flush, recorder_of

__all__ = ["flush", "install"]


def install(locks: BaseLocks[Any]) -> None:
    """Writes what happens to the locks of this client, `Locks` or `AsyncLocks`, to the lock server, where the page of
    the lock service shows it: grants, releases, losses, and how long callers waited and held. Callers only leave a
    record; a thread of its own writes a few times a second. Installing twice writes once.

    Needs the rights to `xadd`, `hincrby` and `expire`. What cannot be written is dropped.

    Raises NotSupported for a client of a cluster or a quorum, TypeError for a wrong argument.

    Example:
        >>> from holdtight import history
        >>> history.install(locks)
    """
    check_client(locks)
    locks.place.check_supports("history", None)
    recorder = recorder_of(locks.events)
    if not any(isinstance(sink, HistorySink) for sink in recorder.sinks):
        client = weakref.ref(locks)

        def closed() -> bool:
            found = client()
            return found is None or found.closed

        recorder.sinks.append(HistorySink(locks.place, closed))
