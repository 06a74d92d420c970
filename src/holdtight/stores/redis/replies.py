"""Turns the replies of scripts into values."""

from typing import Any

from holdtight.base.values import Denied, Late, Outcome, Queued, QueueIsFull, Withdrawn

__all__ = ["read_refusal", "read_release"]


def read_refusal(reply: Any) -> Outcome:
    """The answer to an attempt that was not granted."""
    match reply:
        case [0, _, holder, left, position, look] if position:
            return Queued(holder or None, left / 1000, position, look / 1000)
        case [0, _, holder]:
            return Denied(holder or None, 0.0)
        case [0, _, holder, _]:
            return Denied(holder or None, 0.0, forced=True)
        case [0, _, holder, left, _, _]:
            return Denied(holder or None, left / 1000)
        case [-1, _]:
            return Late()
        case [-2, _, waiting]:
            return QueueIsFull(waiting)
        case _:
            return Withdrawn()


def read_release(reply: Any, sent: float) -> "int | Denied":
    """RELEASED, MORE_TO_SWEEP or HANDED_ON, as the scripts number them; Denied if it was not ours."""
    if isinstance(reply, int):
        return reply
    return Denied(reply[1] or None, 0.0, forced=len(reply) > 2)
