"""Interprets the reply to a renewal.

A renewal ends Renewed, Lost or Unknown. Unknown is neither success nor loss: the lease's
deadline decides.
"""

import enum
from typing import Any

from holdtight.base.clock import Drift
from holdtight.base.values import LossReason

__all__ = ["Verdict", "judge", "next_ttl"]


class Verdict(enum.Enum):
    RENEWED = "renewed"
    UNKNOWN = "unknown"


def judge(reply: Any) -> "Verdict | LossReason":
    """Judges the raw reply of `renew.lua`; anything unexpected, error replies too, is Unknown."""
    if reply == 1 and reply.__class__ is int:
        return Verdict.RENEWED
    match reply:
        case [0, holder]:
            return LossReason.TAKEN if holder else LossReason.EXPIRED
        case _:
            return Verdict.UNKNOWN


def next_ttl(ttl: float, now: float, hold_until: float | None, drift: Drift) -> float:
    """The ttl to request: `max_hold` shortens the last renewals, so that the server lets the grant expire in time."""
    if hold_until is None:
        return ttl
    return max(0.001, min(ttl, drift.ttl_for(hold_until - now)))
