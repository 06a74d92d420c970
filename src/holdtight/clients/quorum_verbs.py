"""What clients of a quorum do besides acquiring, blocking and asyncio: bless and inspect."""

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from holdtight.base import refusals
from holdtight.base.plan import Fan, LinkDown, NoQuorum, Plan, ServerSaid
from holdtight.base.values import LISTED, LockInfo
from holdtight.clients.verbs import Verbs, ttls_of
from holdtight.core.inspect_quorum import inspect
from holdtight.core.quorum import all_answered, say
from holdtight.stores.boundary import Place
from holdtight.stores.redis.quorum_place import QuorumPlace
from holdtight.stores.times import LONGEST_PATIENCE

if TYPE_CHECKING:
    from holdtight.base.operations import AuditRecord, Finding
    from holdtight.config.settings import Settings
    from holdtight.core.force import Order
    from holdtight.core.listing import QuorumListing

__all__ = ["QuorumVerbs"]


class QuorumVerbs(Verbs):
    def look(self, place: Place, prepared: Any, entered: dict[str, int], most: int = LISTED) -> Plan[LockInfo]:
        quorum = cast(QuorumPlace, place)
        steps = [quorum.store.stamp_step()] * len(quorum.nodes)
        guarded = partial(_guarded, quorum)
        return inspect(prepared, quorum.names, lambda: steps, quorum.store.records_step, guarded, entered, most)

    def listing(self, place: Place, pattern: str, entered: dict[str, int]) -> "QuorumListing":
        from holdtight.core.listing import QuorumListing

        quorum = cast(QuorumPlace, place)
        return QuorumListing(place.survey, quorum.store, pattern, entered, quorum.names, quorum.store.majority)

    def force(self, place: Place, prepared: Any, order: "Order", entered: dict[str, int]) -> "Plan[AuditRecord | None]":
        from holdtight.core.force import force_quorum

        quorum = cast(QuorumPlace, place)
        return force_quorum(
            [node.forcing for node in quorum.nodes],
            quorum.names,
            quorum.store.majority,
            partial(self.look, place, prepared, entered),
            order,
            quorum.store.proposal,
            place.clock,
        )

    def audit(self, place: Place, limit: int, name: str | None) -> "Plan[list[AuditRecord]]":
        from holdtight.core.force import audit_quorum

        quorum = cast(QuorumPlace, place)
        return audit_quorum([node.forcing for node in quorum.nodes], quorum.names, quorum.store.majority, limit, name)

    def doctor(self, place: Place, settings: "Settings") -> "Plan[list[Finding]]":
        from holdtight.core.doctor import Case, doctor

        quorum = cast(QuorumPlace, place)
        shortest, longest = ttls_of(settings)
        case = Case(
            quorum.names,
            [node.examining for node in quorum.nodes],
            shortest,
            max(longest, quorum.store.max_ttl_ms / 1000),
            place.clock,
            quorum=True,
            majority=quorum.store.majority,
            guard=settings.restart_guard,
            stamp_step=quorum.store.stamp_step() if settings.restart_guard else None,
            guarded=partial(_guarded, quorum),
        )
        return doctor(case)

    def bless(self, place: Place, about: dict[str, Any]) -> Plan[dict[str, str]]:
        quorum = cast(QuorumPlace, place)
        if not any(node.client.guarded for node in quorum.nodes):
            raise refusals.nothing_to_bless()
        return _bless(quorum, about)


def _guarded(place: QuorumPlace, index: int, stamp: Any) -> float:
    """Seconds until the node votes, according to its stamp; the node may have restarted since."""
    client = place.nodes[index].client
    if not client.guarded or isinstance(stamp, LinkDown | ServerSaid):
        return 0.0
    if not stamp:
        return place.store.max_ttl_ms / 1000
    since, max_ttl, _ = stamp
    return (since + max_ttl) / 1000 - client.server_time(place.clock()) if since else 0.0


def _bless(place: QuorumPlace, about: dict[str, Any]) -> Plan[dict[str, str]]:
    """Sends the blessing once to every node. Raises NoQuorum unless a majority confirms it."""
    now = place.clock()
    steps = [place.store.bless_step(index, about, now, LONGEST_PATIENCE) for index in range(len(place.nodes))]
    said: list[Any] = yield Fan(steps, all_answered, list, LONGEST_PATIENCE)
    nodes = {name: "blessed" if each is True else say(each) for name, each in zip(place.names, said, strict=True)}
    if said.count(True) < place.store.majority:
        raise NoQuorum(nodes, place.store.majority, answered=False)
    return nodes
