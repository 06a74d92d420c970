"""The plan that takes several names in one step, if all are free and have no waiters."""

from collections.abc import Callable
from typing import Protocol, cast

from holdtight.base.plan import LinkDown, Plan, ServerSaid, Step
from holdtight.base.values import Grant, Owner
from holdtight.core.acks import Acknowledging, acknowledged, longest_wait

__all__ = ["MultiClaim", "in_one_script"]


class MultiClaim(Protocol):
    """Claims on several names of one store."""

    valid: float
    names: list[str]
    ttl: float
    """The shortest."""

    def attempt_step(self, owner: Owner, *, now: float) -> Step: ...
    def withdraw_steps(self, owner: Owner, *, marker: int) -> list[Step]: ...
    def arrival_limit(self, now: float) -> int: ...


def in_one_script(
    several: MultiClaim, owner: Owner, *, clock: Callable[[], float], acks: Acknowledging | None = None
) -> Plan[list[Grant] | None]:
    """Returns a grant for each name, or None if they must be taken one by one. Undoes an unanswered request for every
    name, and grants that too few replicas have."""
    now = clock()
    limit = several.arrival_limit(now)
    try:
        answer = yield several.attempt_step(owner, now=now)
    except ServerSaid:
        return None  # taking the names one by one shows which of them fails and why
    except LinkDown as down:
        if down.sent:
            yield from _undo(several, owner, limit)
        return None
    except BaseException:
        yield from _undo(several, owner, limit)
        raise
    if not isinstance(answer, list):
        return None
    grants = cast(list[Grant], answer)
    if acks is not None:
        try:
            count = yield from acknowledged(acks, several.names[0], longest_wait(several.ttl))
        except (LinkDown, ServerSaid):
            yield from _undo(several, owner, 0)
            return None
        except BaseException:
            yield from _undo(several, owner, 0)
            raise
        grants = [grant._replace(acks=count) for grant in grants]
    if clock() - now >= several.valid:  # we were paused: too little of the ttl remains
        yield from _undo(several, owner, 0)
        return None
    return grants


def _undo(several: MultiClaim, owner: Owner, marker: int) -> Plan[None]:
    for step in several.withdraw_steps(owner, marker=marker):
        try:
            yield step
        except (LinkDown, ServerSaid):
            pass  # the ttl ends it
