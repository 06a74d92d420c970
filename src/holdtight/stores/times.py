"""Times and sizes that all stores share. The Lua scripts get theirs from here too (see redis/script.py)."""

from holdtight.base.plan import LONGEST_PATIENCE

__all__ = [
    "AUDIT_MS",
    "CLAIM_MS",
    "CONNECT_SECONDS",
    "FENCES",
    "FRESH_MS",
    "HEARTBEAT_MS",
    "KEPT_MS",
    "LONGEST_PATIENCE",
    "LOOK_SECONDS",
    "MARKER_SLACK_MS",
    "QUICK",
    "SPOIL_MS",
    "SWEEP",
    "TAIL_MS",
    "marker_for",
]

TAIL_MS = 10_000
"""How long a key outlives its grant: the next owner still finds the last fence, and sees that a holder expired rather
than released."""
CLAIM_MS = 500
"""How long a waiter has to confirm a hand-over."""
FENCES = 65
"""How many fences an attempt with `cohort=True` reserves: one for its own lease, and one for each hand-over."""
FRESH_MS = 200
"""A waiter whose last sign of life is younger than this is trusted to confirm a hand-over."""
HEARTBEAT_MS = 5_000
"""How long a waiter keeps its place without a heartbeat."""
KEPT_MS = HEARTBEAT_MS + 2_000
"""The same for an owner from outside. Its heartbeats come every third of HEARTBEAT_MS: so it keeps its place for
HEARTBEAT_MS from the moment at which the process that sends them dies."""
SWEEP = 200
"""How many entries one script inspects at most, in search of dead ones."""
AUDIT_MS = 90 * 24 * 3600 * 1000
"""How long the audit records stay after the last one."""
CONNECT_SECONDS = 2.0
"""How long the keeper and the scouts try to connect, and callers of the drop-in, who cannot set it."""
LOOK_SECONDS = 0.2
"""Servers look ten times a second whether the time of a WAIT is over."""
SPOIL_MS = 8 * 24 * 3600 * 1000
"""How long a flight that was invalidated in the air is remembered: no older flight may store its value."""
QUICK = 0.05
"""The server's time from a reply that came within so many seconds counts as if the request had taken no time."""
MARKER_SLACK_MS = 50
"""Another thread may update our estimate of the server's time between two reads of it."""


def marker_for(limit: float) -> int:
    """The end (ms) of a marker that outlives a request with the arrival limit `limit` (µs), in the server's time."""
    return int(limit) // 1000 + MARKER_SLACK_MS
