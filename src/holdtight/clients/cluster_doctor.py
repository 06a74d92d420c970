"""What `doctor` finds on a cluster: each master as one server, one after another, and then the cluster as a whole."""

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdtight.base.operations import Finding, ReplicaSeen
from holdtight.base.plan import LinkDown, Park, Plan, ServerSaid, Wish
from holdtight.clients.verbs import ttls_of
from holdtight.core.doctor import BUDGET, LOOK, Case, doctor
from holdtight.core.doctor_replication import SURVIVES, lags, of_replicas, skews
from holdtight.core.findings import finding
from holdtight.stores.redis.cluster import ClusterPlace
from holdtight.stores.redis.cluster_examining import NodeExamining, OpenSlots

if TYPE_CHECKING:
    from holdtight.config.settings import Settings

__all__ = ["examine"]

FAILOVER_FACTOR, CLUSTER_FAILOVER_SECONDS = 1.5, 1.0
"""A failover takes so many times cluster-node-timeout, and so many seconds more."""
OF_THE_WHOLE = 0.25
"""The share of the time that is kept for the cluster as a whole."""


class Seen(NamedTuple):
    server: str
    info: dict[str, str]
    offset: float | None
    coverage: str
    node_timeout: str
    slots: OpenSlots | None


def examine(cluster: ClusterPlace, settings: "Settings") -> Plan[list[Finding]]:
    found: list[Finding] = []
    try:
        yield NodeExamining.anywhere(cluster).clock_step()  # learns the servers
    except Exception as error:  # also one that a credentials callable raises
        if not cluster.masters():
            refused = "RIGHT_MISSING" if isinstance(error, ServerSaid) and error.lacks_right else "REFUSED"
            return [finding("UNREACHABLE" if isinstance(error, LinkDown) else refused, cluster.display, str(error))]
    cluster.scout.doubt()  # otherwise what is known may be half a minute old
    around, until = cluster.look_around(), cluster.clock() + BUDGET
    masters = cluster.masters()
    shortest, longest = ttls_of(settings)
    share = BUDGET * (1 - OF_THE_WHOLE) / max(1, len(masters))
    for node in masters:
        case = Case([node.display], [NodeExamining(node)], shortest, longest, cluster.clock, acks=settings.acks)
        told = yield from doctor(case, share)
        found += [each for each in told if each.id != "CLOCK_OFFSET"]  # CLOCK_SKEW tells it, for all servers
    unasked = {each.node for each in found if each.id in ("UNREACHABLE", "REFUSED")}
    seen: list[Seen] = []
    for node in [each for each in masters if each.display not in unasked]:
        about = yield from _look(NodeExamining(node), node.display)
        seen.append(about)
    while not around.done and cluster.clock() < until:
        yield Park(b"", min(until, cluster.clock() + LOOK))
    found += _judge(seen, sum(node is cluster.nowhere for node in cluster.nodes_at), shortest)
    found += _judge_replicas(around.replicas)
    clocks = [(each.server, each.offset) for each in seen if each.offset is not None]
    found += skews([*clocks, *((each.server, each.offset) for each in around.replicas if not each.cause)])
    return found


def _look(examining: NodeExamining, server: str) -> Generator[Wish, Any, Seen]:
    answers: list[Any] = []
    try:
        offset: float | None = yield examining.clock_step()
    except Exception:  # as in `examine`
        offset = None
    for step in (
        examining.info_step(),
        examining.config_step("cluster-require-full-coverage"),
        examining.config_step("cluster-node-timeout"),
        examining.slots_step(),
    ):
        try:
            answers.append((yield step))
        except Exception:
            answers.append(None)
    info, coverage, timeout, slots = answers
    return Seen(server, info or {}, offset, coverage or "", timeout or "", slots)


def _judge(seen: list[Seen], unserved: int, ttl: float) -> Iterator[Finding]:
    if unserved:
        yield finding("SLOT_UNSERVED", None, f"{unserved} slots have no server")
    for each in seen:
        if each.slots is None:
            yield finding("NOT_KNOWN", each.server, "CLUSTER NODES is refused")
        elif each.slots.open:
            shown = ", ".join(each.slots.open[:5])
            yield finding("SLOT_OPEN", each.server, f"{len(each.slots.open)} slots are on their way: {shown}")
        if each.info and each.info.get("connected_slaves", "0") == "0":
            yield finding("NO_REPLICA", each.server, "it has no replica")
        yield from lags(each.server, each.info)
    covered = [each.server for each in seen if each.coverage == "yes"]
    if covered:
        yield finding("FULL_COVERAGE", None, f"cluster-require-full-coverage is yes on {len(covered)} servers")
    slowest = max((int(each.node_timeout) / 1000 for each in seen if each.node_timeout.isdigit()), default=0.0)
    if slowest * FAILOVER_FACTOR + CLUSTER_FAILOVER_SECONDS > ttl * SURVIVES:
        shown = f"cluster-node-timeout is {slowest * 1000:.0f}, and the shortest ttl {ttl:g} s"
        yield finding("SLOW_FAILOVER", None, shown, change="Lower cluster-node-timeout, or use a longer ttl")


def _judge_replicas(replicas: Sequence[ReplicaSeen]) -> Iterator[Finding]:
    for each in of_replicas(replicas):
        if each.id == "REPLICA_PRIORITY":
            means = "A cluster does not heed it: any replica may be promoted"
            change = "Set cluster-replica-no-failover for a replica that must not be promoted, and equal priorities"
            yield each._replace(means=means, change=change)
        else:
            yield each
