"""Records: what callers, signal handlers and the keeper leave for a recorder (ops/recorder.py) to count later.

A record is a tuple that starts with one of these codes. Making one takes no lock and runs no user code. `now` and
`started` are times of the client's clock, `terms` are those of the lock.
"""

__all__ = [
    "DEGRADED",
    "ENDED",
    "EXPIRED",
    "FAILED",
    "FORCED",
    "GRANTED",
    "LOST",
    "RELEASE_FAILED",
    "RENEWAL_FAILED",
    "RENEWED",
]

GRANTED = 0
"""(GRANTED, tenure, started, now, queued): a lease was given, after a wait in line if `queued`."""
ENDED = 1
"""(ENDED, tenure, now, how): the lease has ended here, `how` is "released", "detached" or "downgraded"."""
FAILED = 2
"""(FAILED, terms, name, owner, started, now, queued, reason, code): as the event; `code` is the error's, or None. The
terms of a multi-lock are None."""
LOST = 3
"""(LOST, tenure, now, reason), with a LossReason."""
RENEWED = 4
"""(RENEWED, tenure, margin): the time that was left before, as a share of the ttl."""
RENEWAL_FAILED = 5
"""(RENEWAL_FAILED, tenure, now, cause)"""
RELEASE_FAILED = 6
"""(RELEASE_FAILED, tenure, now)"""
EXPIRED = 7
"""(EXPIRED, tenure): the holder before this one never released."""
DEGRADED = 8
"""(DEGRADED, terms, name, how): a lease was given without the server."""
FORCED = 9
"""(FORCED, terms, name): an operator took the lock from its holder. The terms may be None."""
