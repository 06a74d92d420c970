"""Requests to the nodes of a quorum that are not about votes: lists, records, release by force, `doctor`."""

from collections.abc import Callable, Sequence
from typing import Any

from holdtight.base.plan import Fan, NoQuorum, ServerSaid, Step
from holdtight.core.quorum import say

__all__ = ["ask_all", "too_few"]


def ask_all(steps: Sequence[Step | None]) -> Fan:
    """Asks the nodes that have a step, and waits for the answers of all of them."""
    asked = [at for at, step in enumerate(steps) if step is not None]

    def certain(answers: list[Any]) -> bool:
        return all(answers[at] is not None for at in asked)

    return Fan(steps, certain, list, max((step.patience for step in steps if step is not None), default=0.0))


def too_few(
    nodes: Sequence[str], said: Sequence[Any], majority: int, well: Callable[[Any], bool], word: str
) -> ServerSaid | NoQuorum:
    """The error if no majority of the answers is `well`: the refusal that a majority gave, else each node's own answer.
    The message calls a good answer `word`."""
    refused = [each for each in said if isinstance(each, ServerSaid)]
    if len(refused) >= majority:
        return refused[0]
    told = {node: word if well(each) else say(each) for node, each in zip(nodes, said, strict=True)}
    return NoQuorum(told, majority, answered=False)
