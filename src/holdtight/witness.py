"""Notices a lease that was dropped without release.

The finalizer is not the lease's own. Python drops what a signal handler raises while a finalizer runs, from its first
instruction on, and nothing inside it can help that: a Ctrl-C must not get lost at the end of every lease that was
released as it should be. So a lease has a witness, whose finalizer it is; the witness of one that has ended well is
used again for another, and does not end.
"""

import threading
import warnings
from _tracemalloc import is_tracing

from holdtight import process
from holdtight.herald import tell
from holdtight.keeper import THREAD_NAME
from holdtight.tenure import Tenure

__all__ = ["Witness", "dismiss", "summon"]

MOST_SPARE = 1000

_spare: list["Witness"] = []


class Witness:
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
        if threading.current_thread().name == THREAD_NAME:  # no foreign code there, and a warning can be one
            tell(warnings.warn, text, ResourceWarning)
        else:
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)


def summon(tenure: Tenure | None) -> Witness:
    try:
        witness = _spare.pop()
    except IndexError:
        witness = Witness()
    witness.tenure = tenure
    return witness


def dismiss(witness: Witness) -> None:
    """Its lease has ended well; neither refers to the other any more."""
    if len(_spare) < MOST_SPARE and not is_tracing():  # who traces is shown where a dropped one was made
        _spare.append(witness)
