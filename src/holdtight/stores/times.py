"""Times and sizes that every store keeps to. The scripts get theirs from here too (see redis/script.py)."""

__all__ = [
    "CLAIM_MS",
    "FRESH_MS",
    "HEARTBEAT_MS",
    "LONGEST_PATIENCE",
    "MARKER_SLACK_MS",
    "SWEEP",
    "TAIL_MS",
    "marker_for",
]

TAIL_MS = 10_000
"""How long a key outlives what it stands for: the next taker still finds the last fence, and sees that a holder
expired rather than released."""
CLAIM_MS = 500
"""How long a hand-over waits for the waiter to confirm it."""
FRESH_MS = 200
"""A waiter that was heard of less than this ago is trusted to come when it is rung."""
HEARTBEAT_MS = 5_000
"""How long a waiter keeps its place without a heartbeat."""
SWEEP = 200
"""How many dead entries one script looks at, at the most."""
LONGEST_PATIENCE = 2.0
"""Seconds that any reply may take, at the most."""
MARKER_SLACK_MS = 50
"""Another thread may learn the server's time between two looks at it."""


def marker_for(limit: float) -> int:
    """In ms: what must outlive a request that is not carried out after `limit`, in µs of the server's time."""
    return int(limit) // 1000 + MARKER_SLACK_MS
