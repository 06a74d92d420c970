"""Plans for the end of a grant: release, adoption by another client, and a writer that becomes a reader."""

from collections.abc import Callable
from typing import Any, Protocol

from holdtight.base.plan import CLOCKS_DISAGREE, LinkDown, Plan, ServerSaid, Step, TooFewAcks
from holdtight.base.values import MORE_TO_SWEEP, Claim, Denied, Grant, Late, LossReason, Owner
from holdtight.core.acks import Acknowledging, acknowledged, longest_wait
from holdtight.core.again import MOST_LATE, MOST_TRIES
from holdtight.errors import LeaseLost

__all__ = ["Sweeping", "adopt", "downgrade", "release", "sweep", "turned"]

MOST_SWEEPS = 1000
UNACKNOWLEDGED_GRANT = 0
"""In place of an arrival limit: the server has granted, and replicas could not be asked."""


class Ending(Protocol):
    @property
    def claim(self) -> Claim: ...

    def read_release(self, reply: Any) -> int | Denied | None: ...
    def release_step(self, owner: Owner) -> Step: ...
    def marker_step(self, owner: Owner, marker: int) -> Step: ...
    def sweep_step(self, owner: Owner) -> Step: ...
    def withdraw_step(self, owner: Owner, *, marker: int = 0) -> Step: ...
    def adopt_step(self, old: Owner, owner: Owner, *, now: float) -> Step: ...
    def downgrade_step(self, owner: Owner, *, now: float, marker: bytes = b"") -> Step: ...


def release(ending: Ending, owner: Owner, *, marker: int, first: Any = None) -> Plan[LossReason | None]:
    """Returns None if the grant was ours and is released, else why it was not ours.

    `first` is the result of a first request, if there was one: the raw reply, or the LinkDown. After a broken
    connection the plan asks once more: "not ours" then means that the first request went through.
    """
    failed = first if isinstance(first, LinkDown) else None
    answer = ending.read_release(first) if first is not None and failed is None else None
    may_have_arrived = failed is not None and failed.sent
    if answer is None:
        try:
            answer = yield ending.release_step(owner)
        except LinkDown as down:
            if failed is not None:
                raise
            may_have_arrived = down.sent
            answer = yield ending.release_step(owner)
    if marker:
        # An attempt of ours may still arrive. The marker makes the server refuse it, or pass the grant on if it came.
        yield ending.marker_step(owner, marker)
    if isinstance(answer, Denied):
        if answer.forced:
            return LossReason.FORCED  # also after a lost reply: nothing is left to be forced after a release
        if may_have_arrived:
            return None
        return LossReason.TAKEN if answer.holder else LossReason.EXPIRED
    if answer == MORE_TO_SWEEP:
        yield from sweep(ending, owner)
    return None


class Sweeping(Protocol):
    def sweep_step(self, owner: Owner) -> Step: ...


def sweep(ending: Sweeping, owner: Owner) -> Plan[None]:
    """Clears dead waiters ahead of the first live one, some at a time.

    This serves the other waiters: if it fails, their own attempts do it, and the release stands.
    """
    for _ in range(MOST_SWEEPS):
        try:
            answer = yield ending.sweep_step(owner)
        except (LinkDown, ServerSaid):
            return
        if answer != MORE_TO_SWEEP:
            return


def adopt(
    ending: Ending, old: Owner, owner: Owner, *, clock: Callable[[], float], acks: Acknowledging | None = None
) -> Plan[Grant]:
    """Takes over a detached grant. After a lost reply the same owner asks again and gets the same grant.

    On failure the plan releases what it may have got, since nobody could adopt that any more. A marker makes the
    server refuse a request that still arrives.
    """
    unanswered: list[int] = []
    try:
        return (yield from turned(lambda: ending.adopt_step(old, owner, now=clock()), ending.claim, unanswered, acks))
    except LeaseLost:
        raise  # the grant is gone or another owner's: nothing to undo
    except BaseException as error:
        if unanswered or not isinstance(error, ServerSaid):
            try:
                yield ending.withdraw_step(owner, marker=max(unanswered, default=0))
            except (LinkDown, ServerSaid):
                pass  # the ttl ends it
        raise


def downgrade(
    ending: Ending,
    owner: Owner,
    *,
    clock: Callable[[], float],
    marker: bytes = b"",
    acks: Acknowledging | None = None,
) -> Plan[Grant]:
    """Turns a writer's grant into a reader's, under the same owner; safe to repeat. `marker` makes the server refuse
    earlier requests of the writer. ServerSaid means that nothing has changed or will: the writer may continue. A
    reader's grant that too few replicas have is released."""
    unanswered: list[int] = []
    try:
        return (
            yield from turned(
                lambda: ending.downgrade_step(owner, now=clock(), marker=marker), ending.claim, unanswered, acks
            )
        )
    except (LinkDown, ServerSaid) as said:
        if isinstance(said, TooFewAcks) or UNACKNOWLEDGED_GRANT in unanswered:
            try:
                yield ending.withdraw_step(owner, marker=max(unanswered, default=0))
            except (LinkDown, ServerSaid):
                pass  # the ttl ends it
        if unanswered and isinstance(said, ServerSaid):
            raise LinkDown(f"an earlier request may still arrive; the last was answered {said}", sent=True) from said
        raise


def turned(
    step: Callable[[], Step], claim: Claim, unanswered: list[int], acks: Acknowledging | None = None
) -> Plan[Grant]:
    """Asks until the server has turned one grant into another; each request is safe to repeat.

    `unanswered` always has the arrival limits of the requests that may have been sent and were not answered, and
    UNACKNOWLEDGED_GRANT if a grant must be released.
    """
    tries = 0
    while True:
        tries += 1
        asked = step()
        unanswered.append(asked.limit)
        try:
            answer = yield asked
        except LinkDown as down:
            if not down.sent:
                unanswered.pop()
            if tries >= MOST_TRIES:
                raise
            continue
        except ServerSaid:
            unanswered.pop()
            raise
        unanswered.pop()
        if isinstance(answer, Grant):
            if acks is None:
                return answer
            try:
                count = yield from acknowledged(acks, claim.name, longest_wait(claim.ttl))
            except LinkDown:
                if tries >= MOST_TRIES:
                    raise
                continue
            except ServerSaid:
                unanswered.append(UNACKNOWLEDGED_GRANT)
                raise
            return answer._replace(acks=count)
        if isinstance(answer, Late):
            if tries >= MOST_LATE:
                raise LinkDown(CLOCKS_DISAGREE, sent=False)
            continue
        raise LeaseLost.because(claim.name, _reason(answer))


def _reason(answer: Any) -> LossReason:
    if not isinstance(answer, Denied):
        return LossReason.EXPIRED
    return LossReason.FORCED if answer.forced else LossReason.TAKEN if answer.holder else LossReason.EXPIRED
