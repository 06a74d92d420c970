"""Acknowledgements of replicas: what follows a grant if the client asks for `acks`.

A grant that too few replicas have is released: a failover might promote a replica that does not have it.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from holdtight.base.plan import Acks, LinkDown, ServerSaid, TooFewAcks, Wish, too_few
from holdtight.base.values import Grant
from holdtight.core.patience import SHORTEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.core.contend import Asking

__all__ = ["Acknowledging", "acknowledged", "attested", "first_wait", "longest_wait", "shortfall"]

LONGEST_WAIT = 1.0


class Acknowledging(Protocol):
    """Asks replicas."""

    needed: int

    def wish(self, name: str, seconds: float) -> Acks: ...


def longest_wait(ttl: float, wait_left: float | None = None) -> float:
    """How long to wait for replicas; `wait_left` is None for a caller that waits for ever, or not at all."""
    longest = min(LONGEST_WAIT, ttl / 3)
    return longest if wait_left is None else min(longest, max(wait_left, SHORTEST_PATIENCE))


def first_wait(ttl: float, wait: float | None, connect_timeout: float) -> float:
    """As `longest_wait`, for the first answer."""
    return longest_wait(ttl, None if wait == 0 else min(connect_timeout, wait or connect_timeout))


def shortfall(seen: int | str, needed: int) -> str:
    """Why a renewal does not count: too few replicas, or the error `seen`. Empty if it counts."""
    if isinstance(seen, str):
        return seen
    return "" if seen >= needed else too_few(seen, needed)


def acknowledged(by: Acknowledging, name: str, seconds: float) -> Generator[Wish, Any, int]:
    """Returns how many replicas have it. Raises TooFewAcks."""
    count: int = yield by.wish(name, seconds)
    if count < by.needed:
        raise TooFewAcks(count, by.needed)
    return count


def _time_left(asking: "Asking") -> float | None:
    """Seconds until the caller stops trying; None if it waits for ever, or not at all."""
    until = asking.wait_until
    if not asking.answered:
        until = min(until, asking.started + asking.connect_timeout)
    return until - asking.clock() if asking.wait != 0 and until < float("inf") else None


def attested(
    asking: "Asking", grant: Grant, undo: Callable[["Asking"], Generator[Wish, Any, bool]]
) -> Generator[Wish, Any, Grant | LinkDown | ServerSaid]:
    """Returns the grant with its acks, or why the caller cannot rely on it. A grant with too few acks is released. If
    no answer came, the grant may still exist: the same owner asks again."""
    assert asking.acks is not None
    claim = asking.question.claim
    asking.in_line = True  # we hold it, and must release it if we stop here
    try:
        left = _time_left(asking)
        count = yield from acknowledged(asking.acks, claim.name, longest_wait(claim.ttl, left))
    except TooFewAcks as few:
        yield from undo(asking)
        return few
    except (LinkDown, ServerSaid) as failure:
        return failure
    return grant._replace(acks=count)
