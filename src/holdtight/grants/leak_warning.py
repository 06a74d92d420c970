"""Notices a lease that was dropped without release, and a client that was dropped without close.

The finalizer is not the lease's own. Python drops what a signal handler raises while a finalizer runs, from its first
instruction on, and nothing inside it can help that: a Ctrl-C must not get lost at the end of every lease that was
released as it should be. So a lease has a witness, whose finalizer it is; the witness of one that has ended well is
used again for another, and does not end. The finalizer of a client that was closed is detached.
"""

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

__all__ = ["LeakWarning", "dismiss", "leak_warning_for", "watch_client"]

MOST_SPARE = 1000

_spare: list["LeakWarning"] = []


class LeakWarning:
    """Belongs to one lease, and to nobody else: it ends when that lease does."""

    __slots__ = ("tenure",)

    def __init__(self) -> None:
        self.tenure: Tenure | None = None

    def __del__(self) -> None:
        tenure = getattr(self, "tenure", None)  # an interrupt may have come before it had one
        if tenure is None or tenure.ended or tenure.reason is not None or tenure.epoch != process.current.epoch:
            return
        # Only flags are set here: a finalizer may run in the middle of anything.
        tenure.entered -= 1
        if tenure.entered:
            return
        tenure.ended = True
        text = (
            f"the lease on {tenure.name!r} was dropped without release: it is renewed no more and ends within its "
            f"ttl of {tenure.ttl:g} s. Use a with block, or keep it and call release()"
        )
        _warn(text, self)


def _warn(text: str, source: object) -> None:
    if threading.current_thread().name == THREAD_NAME:  # no foreign code there, and a warning can be one
        tell(warnings.warn, text, ResourceWarning)
    else:
        warnings.warn(text, ResourceWarning, source=source, stacklevel=3)


def leak_warning_for(tenure: Tenure | None) -> LeakWarning:
    try:
        witness = _spare.pop()
    except IndexError:
        witness = LeakWarning()
    witness.tenure = tenure
    return witness


def dismiss(witness: LeakWarning) -> None:
    """Its lease has ended well; neither refers to the other any more."""
    if len(_spare) < MOST_SPARE and not is_tracing():  # who traces is shown where a dropped one was made
        _spare.append(witness)


class _Origin:
    """Made together with a client: a warning can show where that was."""


def watch_client(
    client: object, places: Sequence[Place], let_go: Callable[[], object], advice: str
) -> "weakref.finalize[..., object]":
    """Has the connections of a client closed that nobody has any more. An empty advice: without a warning.

    Nothing here may keep the client alive. `let_go` must not block or talk: it may run in the middle of anything."""
    finalizer = weakref.finalize(
        client, _dropped, repr(client), places, let_go, advice, process.current.epoch, _Origin()
    )
    finalizer.atexit = False  # at the end of the process the kernel closes them
    return finalizer


def _dropped(
    name: str, places: Sequence[Place], let_go: Callable[[], object], advice: str, epoch: int, origin: _Origin
) -> None:
    connected = False
    let_go()
    for place in places:
        connected = connected or place.client.lead is not None
        place.spare = _no_link  # the keeper may have use for the place yet, not for our links
        place.runtime.keeper.forget(place, dropped=True)
    if connected and advice and epoch == process.current.epoch:
        _warn(f"{name} was dropped without being closed: {advice}, or share one client in the whole process", origin)


def _no_link() -> None:
    return None
