"""How long to wait for one reply."""

from typing import Protocol

from holdtight.base.plan import LONGEST_PATIENCE
from holdtight.base.values import Claim

__all__ = ["SHORTEST_PATIENCE", "Bounded", "patience"]

SHORTEST_PATIENCE = 0.1


class Bounded(Protocol):
    """The limits of a claim within which a reply must arrive."""

    @property
    def claim(self) -> Claim: ...
    @property
    def valid(self) -> float: ...


def patience(question: Bounded, wait: float | None, connect_timeout: float | None) -> float:
    """How long to wait for one reply when `wait` seconds are left in all.

    `connect_timeout` bounds the time before the first answer and is None after it. The first try gets half of the
    time, so that there is time to ask again after a lost reply.
    """
    if wait == 0:
        return min(question.claim.ttl / 3, LONGEST_PATIENCE)
    longest = min(question.valid, LONGEST_PATIENCE)
    if connect_timeout is not None:
        longest = min(longest, connect_timeout / 2)
        wait = wait if wait is None else wait / 2
    return longest if wait is None else min(longest, max(wait, SHORTEST_PATIENCE))
