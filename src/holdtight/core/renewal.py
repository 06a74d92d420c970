"""Which ttl a renewal asks for.

A renewal ends Renewed, Lost or Unknown (`values.Verdict`). Unknown is never success and never yet loss: the lease's own
deadline decides.
"""

from holdtight.base.clock import Drift

__all__ = ["next_ttl"]


def next_ttl(ttl: float, now: float, hold_until: float | None, drift: Drift) -> float:
    """The ttl to request: `max_hold` shortens the last renewals, so that the server lets the grant expire in time."""
    if hold_until is None:
        return ttl
    return max(0.001, min(ttl, drift.ttl_for(hold_until - now)))
