"""Plans for the end of a grant: release, and adoption by somebody else."""

from collections.abc import Callable
from typing import Any, Protocol

from holdtight.errors import LeaseLost
from holdtight.plan import LinkDown, Plan, Step
from holdtight.values import Claim, Denied, Grant, Late, LossReason, Owner

__all__ = ["adopt", "release"]

MOST_SWEEPS = 1000


class Ending(Protocol):
    claim: Claim

    def read_release(self, reply: Any) -> int | Denied | None: ...
    def release_step(self, owner: Owner, *, marker: int = 0) -> Step: ...
    def withdraw_step(self, owner: Owner, *, marker: int = 0, otherwise: Step | None = None) -> Step: ...
    def adopt_step(self, old: Owner, owner: Owner, *, now: float) -> Step: ...


def release(ending: Ending, owner: Owner, *, marker: int, first: Any = None) -> Plan[LossReason | None]:
    """None if it was ours and is released, else the reason why it was not ours.

    `first` is what a first request brought, if there was one: the raw reply, or the LinkDown. Asked again once after
    a broken connection: "not ours" then means that the first request went through.
    """
    retried = isinstance(first, LinkDown)
    answer = ending.read_release(first) if first is not None and not retried else None
    if answer is None:
        try:
            answer = yield ending.release_step(owner, marker=marker)
        except LinkDown:
            if retried:
                raise
            retried = True
            answer = yield ending.release_step(owner, marker=marker)
    sweeps = 0
    while answer == 2 and sweeps < MOST_SWEEPS:
        # Dead waiters stood before the first live one: clear them away, some at a time.
        sweeps += 1
        answer = yield ending.withdraw_step(owner)
    if isinstance(answer, Denied) and not retried:
        return LossReason.TAKEN if answer.holder else LossReason.EXPIRED
    return None


def adopt(ending: Ending, old: Owner, owner: Owner, *, clock: Callable[[], float]) -> Plan[Grant]:
    """Takes a detached grant over. The same owner asks again after a lost reply and gets the same grant."""
    tries = 0
    while True:
        tries += 1
        try:
            answer = yield ending.adopt_step(old, owner, now=clock())
        except LinkDown:
            if tries >= 3:
                raise
            continue
        if isinstance(answer, Grant):
            return answer
        if isinstance(answer, Late) and tries < 10:
            continue
        reason = LossReason.TAKEN if isinstance(answer, Denied) and answer.holder else LossReason.EXPIRED
        raise LeaseLost.because(ending.claim.name, reason)
