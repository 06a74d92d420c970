"""The requests that a keeper connection sends in one write, and how long it waits for their answers."""

from collections import deque
from collections.abc import Callable, Sequence

from holdtight.base.clock import Clock
from holdtight.keeper.charges import SILENCE, DeferredUndo, HandedOn
from holdtight.keeper.schedule import Charge
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["BATCH", "Limits", "Sent", "requests_of"]

BATCH = 12
FRESH = LONGEST_PATIENCE / 4
"""Seconds that the keeper may take to make the requests of a batch."""
STALE = LONGEST_PATIENCE / 2
"""At this age a request may arrive too late: the server refuses it."""
_PATIENT = (DeferredUndo, HandedOn)
"""No lease and no place in line depends on these. They come when a server is slow; if they made the connection
impatient, a pause of the server would fail thousands of renewals on it, which then have to be sent again."""

Sent = tuple[Charge, float, bytes]
"""A charge, the moment from which its request counts, and the request."""


def requests_of(
    taken: list[tuple[Charge, float]],
    clock: Clock,
    *,
    late: bool,
    hindered_at: float,
    stumbled: Callable[[Charge, Exception, float], None],
) -> tuple[list[Sent], float, Sequence[tuple[Charge, float]]]:
    """Makes the requests of charges that are due; `taken` has the due time of each. Returns them, how long the server
    may stay silent, and the charges that are to be sent later.

    The arrival limit of a request counts from the latest look at the clock, so this looks often, and ends early if the
    thread gets little time. If the process was stopped in between, what was made before cannot be sent: it is left for
    later.
    """
    batch: list[Sent] = []
    patience = SILENCE
    began = now = clock()
    rest: list[tuple[Charge, float]] = []
    for at, (charge, due) in enumerate(taken):
        if at and not at % BATCH:
            now = clock()
            if now - began > FRESH:
                rest = taken[at:]
                break
        try:
            if late and charge.alive and now - max(due, hindered_at) > charge.interval / 2:  # connecting may take long
                charge.late(now - due)
            request = charge.request(now)
            if request is None and charge.alive:
                charge.overdue()
        except Exception as error:
            stumbled(charge, error, now)
            continue
        if request is None:
            continue
        if charge.interval < patience and not isinstance(charge, _PATIENT):
            patience = charge.interval
        batch.append((charge, now, request))
    oldest = clock() - STALE
    if batch and began < oldest:
        old = {charge for charge, made, _ in batch if made < oldest}
        rest = [pair for pair in taken[: len(taken) - len(rest)] if pair[0] in old] + rest
        batch = [each for each in batch if each[0] not in old]
    return batch, patience, rest


class Limits:
    """The time limits of the batches in flight on a connection: how long the server may stay silent. A later batch does
    not extend the limit of an earlier one. A reply extends all: the server is working, and answers in order."""

    def __init__(self) -> None:
        self._batches: deque[list[float]] = deque()
        """For each: unanswered requests, when to give up, and the time allowed after a reply."""

    @property
    def end(self) -> float:
        """When to give up."""
        return min(until for _, until, _ in self._batches) if self._batches else float("inf")

    def begin(self, count: int, patience: float) -> list[float]:
        """A batch is about to be sent; the caller sets the second value afterwards."""
        limit = [count, float("inf"), patience]
        self._batches.append(limit)
        return limit

    def answered(self, count: int, now: float) -> None:
        while count:
            first = self._batches[0]
            done = min(count, int(first[0]))
            count -= done
            first[0] -= done
            if not first[0]:
                self._batches.popleft()
        for each in self._batches:
            each[1] = max(each[1], now + each[2])

    def clear(self) -> None:
        self._batches.clear()
