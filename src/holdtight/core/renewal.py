"""What the answer to a renewal means.

A renewal ends Renewed, Lost or Unknown. Unknown is never success and never yet loss: the lease's
own deadline decides about it.
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
    """From the raw reply of `renew.lua`; anything unexpected, error replies too, is Unknown."""
    if reply == 1 and reply.__class__ is int:
        return Verdict.RENEWED
    match reply:
        case [0, holder]:
            return LossReason.TAKEN if holder else LossReason.EXPIRED
        case _:
            return Verdict.UNKNOWN


def next_ttl(ttl: float, now: float, hold_until: float | None, drift: Drift) -> float:
    """The ttl to ask for: `max_hold` shortens the last renewals, so that the server lets go in time."""
    if hold_until is None:
        return ttl
    return max(0.001, min(ttl, drift.ttl_for(hold_until - now)))
