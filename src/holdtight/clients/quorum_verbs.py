"""What clients of a quorum do besides acquiring, blocking and asyncio: bless, inspect, and convert errors."""

from typing import Any

from holdtight.base.plan import Fan, LinkDown, NoQuorum, Plan, ServerSaid
from holdtight.base.values import LockInfo
from holdtight.core.inspect_quorum import inspect
from holdtight.core.quorum import all_answered, say
from holdtight.errors import LockError, QuorumNotReached
from holdtight.stores.redis.quorum_place import QuorumPlace
from holdtight.stores.redis.quorum_store import Ballot
from holdtight.stores.times import LONGEST_PATIENCE

__all__ = ["bless", "look_at", "meaning"]


def meaning(error: LinkDown | ServerSaid, name: str | None, ballot: Ballot | None, server: str) -> LockError:
    """Converts an error of a plan on a quorum into a public exception."""
    if isinstance(error, NoQuorum):
        return QuorumNotReached.among(name, error.nodes, error.majority)
    if isinstance(error, ServerSaid) and ballot is not None:
        return ballot.meaning(error)
    return QuorumNotReached.among(name, {server: str(error)}, 0)


def bless(place: QuorumPlace) -> Plan[dict[str, str]]:
    """Sends the blessing once to every node. Raises NoQuorum unless a majority confirms it."""
    now = place.clock()
    steps = [place.store.bless_step(index, now, LONGEST_PATIENCE) for index in range(len(place.nodes))]
    said: list[Any] = yield Fan(steps, all_answered, list, LONGEST_PATIENCE)
    nodes = {name: "blessed" if each is True else say(each) for name, each in zip(place.names, said, strict=True)}
    if said.count(True) < place.store.majority:
        raise NoQuorum(nodes, place.store.majority, answered=False)
    return nodes


def look_at(place: QuorumPlace, ballot: Ballot, entered: dict[str, int]) -> Plan[LockInfo]:
    def guarded(index: int, stamp: Any) -> float:
        """Seconds until the node votes, according to its stamp; the node may have restarted since."""
        client = place.nodes[index].client
        if not client.guarded or isinstance(stamp, LinkDown | ServerSaid):
            return 0.0
        if not stamp:
            return place.store.max_ttl_ms / 1000
        since, max_ttl, _ = stamp
        return (since + max_ttl) / 1000 - client.server_time(place.clock()) if since else 0.0

    steps = [place.store.stamp_step()] * len(place.nodes)
    return inspect(ballot, place.names, lambda: steps, place.store.records_step, guarded, entered)
