"""The positions of the fields in stored values. Scripts use the loader's macros (`OWNER_OF(value)`); `inspection.py`
cuts out the same fields in Python. lua/lib/read_main.lua, queue_helpers.lua and mark.lua describe the formats.
"""

__all__ = ["FIELDS", "INBOX_AT", "after_inbox", "cut"]

FIELDS: dict[str, tuple[int, int | None]] = {
    # A main value.
    "KIND_OF": (1, 2),  # of every value that begins with a letter and a version
    "FLAG_OF": (3, 3),
    "FRONT_OF": (1, 3),
    "AFTER_FLAG_OF": (4, None),
    "OWNER_OF": (4, 27),
    "UP_TO_OWNER_OF": (1, 27),
    "FENCE_OF": (28, 43),
    "UP_TO_FENCE_OF": (1, 43),
    "LABEL_OF": (44, None),
    "SHARED_FENCE_OF": (4, 19),  # of readers, of permits, and of a tombstone
    # A waiter. What follows the inbox begins at a place that the size of the inbox decides.
    "MODE_OF": (1, 1),  # of a holder, too
    "MARK_OF": (2, 2),
    "MODE_AND_MARK_OF": (1, 2),
    "AFTER_MARK_OF": (3, None),
    "EXPIRY_OF": (3, 15),
    "AFTER_EXPIRY_OF": (16, None),
    "TTL_OF": (16, 24),
    "JOINED_OF": (25, 37),
    "INBOX_SIZE_OF": (38, 39),
    # What follows the inbox of a waiter for permits.
    "COUNT_OF": (1, 9),
    "PERMITS_OF": (10, 18),
    "AFTER_PERMITS_OF": (19, None),
    # A holder that shares the name.
    "HELD_COUNT_OF": (2, 10),
    "UP_TO_HELD_COUNT_OF": (1, 10),
    "HELD_FENCE_OF": (11, 26),
    "HELD_LABEL_OF": (27, None),
    # A marker.
    "UNTIL_OF": (1, 13),  # of a forced grant, too
    "ORDINAL_OF": (14, None),
    # The name of a field in a waiters hash, unless it is an owner.
    "SORT_OF": (1, 1),
    "NAMED_OWNER_OF": (2, None),
    # A grant that was released by force.
    "FORCED_FENCE_OF": (14, 29),
    "FORCED_TO_OF": (30, 45),
    "FORCED_AT_OF": (46, 61),
    "FORCED_ID_OF": (62, 93),
    "FORCED_NEXT_OF": (94, None),
    # A waiter that a node of a quorum rings.
    "WATCHER_OF": (1, 24),
    "WATCHER_INBOX_OF": (25, None),
    # A published wait.
    "WAITER_OF": (1, 24),
    # The stamp of a node.
    "SINCE_OF": (3, 15),
    "STAMP_PASSPORT_OF": (16, None),
    "STAMP_MAX_TTL_OF": (16, 24),
    "STAMP_RUN_OF": (25, None),
    # A passport. A sign comes before it if the guard has passed a vote from this connection.
    "SIGN_OF": (1, 1),
    "UNSIGNED_OF": (2, None),
    "MAX_TTL_OF": (1, 9),
    "RUN_OF": (10, None),
    # A fence.
    "SECONDS_OF": (1, 10),
    # A value of single_flight.
    "FRESH_OF": (4, 15),
    "STALE_OF": (16, 27),
    # The record of a run.
    "RUN_STATE_OF": (3, 3),
    "RUN_BODY_OF": (4, 59),  # owner, fence and start
    "RUN_OWNER_OF": (4, 27),
    "RUN_FENCE_OF": (28, 43),
    "RUN_STARTED_OF": (44, 59),
    "RUN_ENDED_OF": (60, 75),
    "RUN_ABOUT_OF": (76, None),
    # An owner in a session.
    "ENROLLED_STATE_OF": (1, 1),
    "ENROLLED_KIND_OF": (2, 2),
    "ENROLLED_COUNT_OF": (3, 11),
    "ENROLLED_FENCE_OF": (12, 27),
    "ENROLLED_NAME_OF": (28, None),
}
"""First and last character, counted from 1 as Lua does; None if the field goes on to the end."""

INBOX_AT = 40
"""Where the inbox of a waiter begins."""


def cut(field: str, value: bytes) -> bytes:
    first, last = FIELDS[field]
    return value[first - 1 : last]


def after_inbox(entry: bytes) -> bytes:
    return entry[INBOX_AT - 1 + int(cut("INBOX_SIZE_OF", entry)) :]
