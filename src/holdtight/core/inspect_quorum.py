"""The plan behind `inspect` on a quorum: the holders on a majority of nodes, and each node's state."""

import base64
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, cast

from holdtight.base.plan import Fan, NoQuorum, Plan, Step, Wish
from holdtight.base.values import Holder, LockInfo, Owner
from holdtight.core.quorum import VotingClaim, all_answered, say

__all__ = ["inspect"]


def inspect(
    prepared: VotingClaim,
    names: Sequence[str],
    stamps: Callable[[], Sequence[Step]],
    records: Callable[[list[Owner]], Step],
    guarded: Callable[[int, Any], float],
    entered: dict[str, int],
) -> Plan[LockInfo]:
    """Finds the holders on a majority of nodes. The answer's `nodes` has each node's state and restart guard."""
    step = prepared.inspect_step()
    said: list[Any] = yield _all([step] * prepared.count, step.patience)
    infos = [each for each in said if isinstance(each, LockInfo)]
    if len(infos) < prepared.majority:
        nodes = {
            name: "answered" if isinstance(each, LockInfo) else say(each)
            for name, each in zip(names, said, strict=True)
        }
        raise NoQuorum(nodes, prepared.majority, answered=False)
    stamped: list[Any] = yield _all(stamps(), step.patience)
    votes: dict[str, list[Holder]] = {}
    for info in infos:
        for holder in info.holders:
            votes.setdefault(holder.owner, []).append(holder)
    holders = [_most_told(found) for found in votes.values() if len(found) >= prepared.majority]
    if holders:
        holders = yield from _named(prepared, records, holders)
    states: dict[str, str] = {}
    for index, (name, each) in enumerate(zip(names, said, strict=True)):
        state = _state(each) if isinstance(each, LockInfo) else say(each)
        left = guarded(index, stamped[index])
        states[name] = f"{state}; votes again in {left:.3g} s (restart guard)" if left > 0 else state
    return LockInfo(
        name=prepared.claim.name,
        kind=holders[0].kind if holders else None,
        holders=tuple(each._replace(entered=entered.get(each.owner)) for each in holders),
        fence=max((info.fence or 0 for info in infos), default=0) or None,
        nodes=states,
    )


def _named(
    prepared: VotingClaim, records: Callable[[list[Owner]], Step], holders: list[Holder]
) -> Generator[Wish, Any, list[Holder]]:
    """Adds the host and pid that any node knows."""
    step = records([base64.urlsafe_b64decode(each.owner) for each in holders])
    said: list[Any] = yield _all([step] * prepared.count, step.patience)
    found = [cast("list[dict[str, Any]]", each) for each in said if isinstance(each, list)]
    named: list[Holder] = []
    for at, holder in enumerate(holders):
        about = next((each[at] for each in found if each[at]), dict[str, Any]())
        named.append(holder._replace(host=about.get("host"), pid=about.get("pid")))
    return named


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
