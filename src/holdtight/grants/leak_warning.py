"""Warns of a lease that was dropped without release, and of a client that was dropped without close.

A lease has no finalizer of its own. Python discards an exception that a signal handler raises while a finalizer runs,
and the finalizer cannot prevent that. So with a finalizer on the lease, a Ctrl-C could get lost at the end of every
lease, even of one that was released properly. Instead, each lease has a LeakWarning with the finalizer. The LeakWarning
of a lease that ended properly is reused for another lease and not finalized. The finalizer of a closed client is
detached.
"""

import gc
import threading
import warnings
import weakref
from _tracemalloc import is_tracing
from collections.abc import Callable, Sequence

from holdtight.base import process
from holdtight.base.callbacks import tell
from holdtight.grants.tenure import Tenure
from holdtight.keeper.keeper import THREAD_NAME
from holdtight.stores.boundary import Place

__all__ = ["MOST_OPEN", "LeakWarning", "dismiss", "leak_warning_for", "watch_client"]

MOST_SPARE_WARNINGS = 1000
MOST_OPEN = 50
"""With so many open clients, those that were dropped are looked for."""

_spare: list["LeakWarning"] = []


class LeakWarning:
    """Only one lease refers to it, so it is finalized when that lease is."""

    __slots__ = ("tenure",)

    def __init__(self) -> None:
        self.tenure: Tenure | None = None

    def __del__(self) -> None:
        tenure = getattr(self, "tenure", None)  # an interrupt may come before it is set
        if tenure is None or tenure.ended or tenure.reason is not None or tenure.epoch != process.current.epoch:
            return
        # Only set flags here: a finalizer may run in the middle of any code.
        tenure.entered -= 1
        if tenure.entered:
            return
        tenure.ended = True
        text = (
            f"the lease on {tenure.name!r} was dropped without release: it is no longer renewed and ends within its "
            f"ttl of {tenure.ttl:g} s. Use a with block, or keep it and call release()"
        )
        _warn(text, self)


def _warn(text: str, source: object) -> None:
    if threading.current_thread().name == THREAD_NAME:  # no user code in the keeper, and a warning may run some
        tell(warnings.warn, text, ResourceWarning)
    else:
        warnings.warn(text, ResourceWarning, source=source, stacklevel=3)


def leak_warning_for(tenure: Tenure | None) -> LeakWarning:
    try:
        warning = _spare.pop()
    except IndexError:
        warning = LeakWarning()
    warning.tenure = tenure
    return warning


def dismiss(warning: LeakWarning) -> None:
    """Keeps it for reuse after its lease ended properly; neither refers to the other any more."""
    if (
        len(_spare) < MOST_SPARE_WARNINGS and not is_tracing()
    ):  # tracemalloc shows where an object was made: do not reuse
        _spare.append(warning)


class _Origin:
    """Created together with a client, so that a warning can show where that was."""


def watch_client(
    client: object, places: Sequence[Place], let_go: Callable[[], object], advice: str
) -> "weakref.finalize[..., object]":
    """Closes the connections of a client that is no longer referenced. With an empty advice it does not warn.

    Nothing here may keep the client alive. `let_go` must neither block nor send: it may run in the middle of any code.
    """
    finalizer = weakref.finalize(
        client, _dropped, repr(client), places, let_go, advice, process.current.epoch, _Origin()
    )
    finalizer.atexit = False  # at exit the kernel closes them
    _open.append(finalizer)
    if len(_open) >= _look_at:
        _find_dropped()
    return finalizer


_open: "list[weakref.finalize[..., object]]" = []
"""One for each client; it is alive until the client is closed or was collected. Pruned by `_find_dropped`."""
_look_at = MOST_OPEN


def _find_dropped() -> None:
    """Frees dropped clients before they use up the descriptors of the process: a client that was used is part of a
    cycle, and the garbage collector seldom looks at old cycles, or is disabled. A program that needs many clients pays
    for a look whenever their number has doubled."""
    global _look_at
    _open[:] = [each for each in _open if each.alive]
    if len(_open) * 4 >= _look_at * 3:
        gc.collect()
        _open[:] = [each for each in _open if each.alive]
        _look_at = max(MOST_OPEN, 2 * len(_open))


def _dropped(
    name: str, places: Sequence[Place], let_go: Callable[[], object], advice: str, epoch: int, origin: _Origin
) -> None:
    connected = False
    let_go()
    for place in places:
        connected = connected or place.client.lead is not None
        place.spare = _no_link  # the keeper may still use the place, but not the client's connections
        place.runtime.keeper.forget(place, dropped=True)
        place.leave()
    if connected and advice and epoch == process.current.epoch:
        _warn(f"{name} was dropped without being closed: {advice}, or share one client in the whole process", origin)


def _no_link() -> None:
    return None
