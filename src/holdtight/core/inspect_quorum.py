"""The plan behind `inspect` on a quorum: the holders on a majority of nodes, and each node's state."""

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, cast

from holdtight.base.plan import Fan, NoQuorum, Plan, Step, Wish
from holdtight.base.values import LISTED, Holder, LockInfo, Owner
from holdtight.core.inspect import named, owners_in
from holdtight.core.quorum import VotingClaim, all_answered, say

__all__ = ["inspect", "judge", "records_on"]


def inspect(
    prepared: VotingClaim,
    names: Sequence[str],
    stamps: Callable[[], Sequence[Step]],
    records: Callable[[list[Owner]], Step],
    guarded: Callable[[int, Any], float],
    entered: dict[str, int],
    most: int = LISTED,
) -> Plan[LockInfo]:
    """Finds the holders on a majority of nodes. The answer's `nodes` has each node's state and restart guard."""
    step = prepared.inspect_step(most)
    said: list[Any] = yield _all([step] * prepared.count, step.patience)
    infos = [each for each in said if isinstance(each, LockInfo)]
    if len(infos) < prepared.majority:
        nodes = {
            name: "answered" if isinstance(each, LockInfo) else say(each)
            for name, each in zip(names, said, strict=True)
        }
        raise NoQuorum(nodes, prepared.majority, answered=False)
    stamped: list[Any] = yield _all(stamps(), step.patience)
    info = judge(prepared.claim.name, names, said, prepared.majority)
    if info.holders:
        info = named(info, (yield from records_on(records, owners_in(info), prepared.count)), entered)
    states = info.nodes or {}
    for index, name in enumerate(names):
        left = guarded(index, stamped[index])
        if left > 0:
            states[name] += f"; votes again in {left:.3g} s (restart guard)"
    return info


def judge(name: str, nodes: Sequence[str], said: Sequence[Any], majority: int) -> LockInfo:
    """The state of a name from the answers of all nodes: held by the owners that a majority names."""
    infos = [each for each in said if isinstance(each, LockInfo)]
    votes: dict[str, list[Holder]] = {}
    for info in infos:
        for holder in info.holders:
            votes.setdefault(holder.owner, []).append(holder)
    holders = tuple(_most_told(found) for found in votes.values() if len(found) >= majority)
    return LockInfo(
        name=name,
        kind=holders[0].kind if holders else None,
        holders=holders,
        fence=max((info.fence or 0 for info in infos), default=0) or None,
        nodes={
            node: _state(each) if isinstance(each, LockInfo) else say(each)
            for node, each in zip(nodes, said, strict=True)
        },
        holding=max(len(holders), *(each.holding for each in infos if each.holding > len(each.holders)), 0),
    )


def records_on(
    records: Callable[[list[Owner]], Step], owners: list[Owner], count: int
) -> Generator[Wish, Any, list[dict[str, Any]]]:
    """For each owner, what the first of `count` nodes that knows it has stored."""
    step = records(owners)
    said: list[Any] = yield _all([step] * count, step.patience)
    found = [cast("list[dict[str, Any]]", each) for each in said if isinstance(each, list)]
    return [next((each[at] for each in found if each[at]), dict[str, Any]()) for at in range(len(owners))]


def _most_told(found: list[Holder]) -> Holder:
    """Returns the holder with the fence that most nodes have: a healed node may have given another."""
    fence = Counter(each.fence or 0 for each in found).most_common(1)[0][0]
    return next(each for each in found if (each.fence or 0) == fence)


def _state(info: LockInfo) -> str:
    if not info.holders:
        return "free"
    return "held by " + ", ".join(f"owner {each.owner[:11]}..." for each in info.holders[:3])


def _all(steps: Sequence[Step | None], patience: float) -> Fan:
    return Fan(steps, all_answered, list, patience)
