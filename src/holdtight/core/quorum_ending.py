"""The end of a grant on a quorum: every node that may have our vote gives it back, or is left to the keeper.

A connection that breaks after the request was sent says nothing about the vote, and a majority of them may break at
once: the servers end them when a password changes. So those nodes are asked once more, on another connection, as the
one server of a single lock is (core/ending.py). "Not ours" then means that an earlier request went through: the first
one, or the one that the keeper sends for every request that got no answer.
"""

from collections.abc import Callable, Sequence
from typing import Any

from holdtight.base.plan import Fan, LinkDown, NoQuorum, Plan, ServerSaid, Step
from holdtight.base.values import RELEASED, Denied, LossReason, Owner
from holdtight.core.quorum import VotingClaim, say

__all__ = ["RELEASE_SECONDS", "release", "release_after"]

RELEASE_SECONDS = 2.0


def release(
    prepared: VotingClaim,
    names: Sequence[str],
    owner: Owner,
    *,
    holding: set[int],
    markers: dict[int, int],
    connections: Sequence[Any],
) -> Plan[LossReason | None]:
    """Takes the votes back on all nodes. Returns None if the lock was ours, else why it was not.

    `holding` has the nodes that may have our vote. `markers` has those where a request of ours may still arrive, on
    the connection that `connections` has for the node, if any. Raises NoQuorum if too few nodes answer to tell.
    """
    steps = _steps(prepared, owner, holding, markers, connections)
    certain = _until_known(steps, prepared.majority)
    answers: list[Any] = yield Fan(steps, certain, list, RELEASE_SECONDS, after=connections)
    return (yield from release_after(answers, names, prepared.majority, steps.__getitem__))


def release_after(
    answers: Sequence[Any], names: Sequence[str], majority: int, step_for: Callable[[int], Step | None]
) -> Plan[LossReason | None]:
    """Continues from the first answers; `step_for` gives the request to a node."""
    told = list(answers)
    broken = [at for at, each in enumerate(told) if isinstance(each, LinkDown) and each.sent and not each.silent]
    if broken and _released(told) < majority:
        steps = [step_for(at) if at in broken else None for at in range(len(told))]
        again: list[Any] = yield Fan(steps, _until_known(steps, majority - _released(told)), list, RELEASE_SECONDS)
        for at in broken:
            answer = again[at]
            if answer is not None:
                told[at] = RELEASED if isinstance(answer, Denied) and not answer.forced else answer
    return _judge(told, names, majority)


def _until_known(steps: Sequence[Step | None], enough: int) -> Callable[[list[Any]], bool]:
    asked = [at for at, step in enumerate(steps) if step is not None]

    def certain(answers: list[Any]) -> bool:
        return _released(answers) >= enough or all(answers[at] is not None for at in asked)

    return certain


def _released(answers: Sequence[Any]) -> int:
    return sum([each.__class__ is int for each in answers])


def _steps(
    prepared: VotingClaim, owner: Owner, holding: set[int], markers: dict[int, int], connections: Sequence[Any]
) -> list[Step | None]:
    steps: list[Step | None] = [None] * prepared.count
    plain = prepared.resign_step(owner)
    for index in holding:
        steps[index] = plain
    for index, marker in markers.items():
        same_connection = connections[index] is not None
        steps[index] = prepared.resign_step(owner, marker) if same_connection else prepared.withdraw_step(owner, marker)
    return steps


def _judge(answers: list[Any], names: Sequence[str], majority: int) -> LossReason | None:
    """`answers` has None for a node that was not asked."""
    ours = _released(answers)
    if ours >= majority:
        return None
    unheard = sum(1 for each in answers if isinstance(each, LinkDown | ServerSaid))
    if ours + unheard < majority:
        if any(isinstance(each, Denied) and each.forced for each in answers):
            return LossReason.FORCED
        taken = any(isinstance(each, Denied) and each.holder for each in answers)
        return LossReason.TAKEN if taken else LossReason.EXPIRED
    nodes = {name: _told(each) for name, each in zip(names, answers, strict=True)}
    raise NoQuorum(nodes, majority, answered=False)


def _told(answer: Any) -> str:
    if answer.__class__ is int:
        return "released"
    return "was not held there" if answer is None else say(answer)
