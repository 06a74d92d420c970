"""Waits for what the keeper does to a lease, instead of sleeping for as long as it should take.

A lease that must not end in a test is renewed every third of its ttl: with a ttl of 3 seconds, it survives a pause of
two seconds on a busy machine.
"""

from __future__ import annotations

import time
from typing import Any

from tests.support.processes import wait_for

__all__ = ["outlive", "renewed"]


def renewed(lease: Any, times: int = 1) -> None:
    """Waits until the lease has been renewed that many more times. Raises LeaseLost if it ends instead."""
    for _ in range(times):
        end = lease.tenure.deadline

        def later(end: float = end) -> bool:
            lease.check()
            return bool(lease.tenure.deadline > end)

        wait_for(later, within=lease.ttl + 5, what="a renewal")


def outlive(*leases: Any) -> None:
    """Waits until the time that the leases have now is over: a lease that is held then has been renewed."""
    end = time.monotonic() + max(lease.remaining() for lease in leases)
    wait_for(lambda: time.monotonic() > end, within=end - time.monotonic() + 1)
