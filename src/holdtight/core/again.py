"""When a plan asks again: a request that got no answer, one that arrived too late, and a read on a connection that had
died while it was idle."""

from collections.abc import Callable, Generator
from typing import Any

from holdtight.base.plan import CLOCKS_DISAGREE, LinkDown, Step, Wish
from holdtight.base.values import Late

__all__ = ["MOST_LATE", "MOST_TRIES", "asked_in_time", "read_again"]

MOST_TRIES = 3
"""So many requests in all may break with their connection."""
MOST_LATE = 10
"""So many may arrive too late. A late answer tells the server's time, so the next request is usually in time."""


def asked_in_time(make: Callable[[], Step]) -> Generator[Wish, Any, Any]:
    """For a request with an arrival limit that is safe to repeat. `make` builds it, with the limit counted from now.
    Returns the answer to the first one that arrives in time."""
    failures = late = 0
    while late < MOST_LATE:
        try:
            answer = yield make()
        except LinkDown:
            failures += 1
            if failures >= MOST_TRIES:
                raise
            continue
        if not isinstance(answer, Late):
            return answer
        late += 1
    raise LinkDown(CLOCKS_DISAGREE, sent=False)


def read_again(wish: Wish) -> Generator[Wish, Any, Any]:
    """For a request that only reads, or is safe to repeat: asks once more if the connection had died unnoticed."""
    try:
        return (yield wish)
    except LinkDown as down:
        if not down.stale:
            raise
    return (yield wish)
