"""The positions of the fields in stored values. Scripts use the loader's macros (`OWNER_OF(value)`); `inspection.py`
cuts out the same fields in Python. lua/lib/read_main.lua, queue_helpers.lua and mark.lua describe the formats.
"""

__all__ = ["FIELDS", "cut"]

FIELDS = {
    # A main value.
    "KIND_OF": (1, 2),
    "FLAG_OF": (3, 3),
    "OWNER_OF": (4, 27),
    "FENCE_OF": (28, 43),
    "SHARED_FENCE_OF": (4, 19),  # of readers, of permits, and of a tombstone
    # A waiter.
    "MODE_OF": (1, 1),  # of a holder, too
    "MARK_OF": (2, 2),
    "EXPIRY_OF": (3, 15),
    "TTL_OF": (16, 24),
    "JOINED_OF": (25, 37),
    "INBOX_SIZE_OF": (38, 39),
    # A holder that shares the name.
    "HELD_FENCE_OF": (11, 26),
    # A marker.
    "UNTIL_OF": (1, 13),  # of a forced grant, too
    # A grant that was released by force.
    "FORCED_FENCE_OF": (14, 29),
    "FORCED_TO_OF": (30, 45),
    "FORCED_AT_OF": (46, 61),
    "FORCED_ID_OF": (62, 93),
    # A value of single_flight.
    "FRESH_OF": (4, 15),
    "STALE_OF": (16, 27),
    # The record of a run.
    "RUN_STATE_OF": (3, 3),
    "RUN_OWNER_OF": (4, 27),
    "RUN_FENCE_OF": (28, 43),
    "RUN_STARTED_OF": (44, 59),
    "RUN_ENDED_OF": (60, 75),
}
"""First and last character, counted from 1 as Lua does."""


def cut(field: str, value: bytes) -> bytes:
    first, last = FIELDS[field]
    return value[first - 1 : last]
