"""What clients do besides acquiring, by the topology of their place: see also clients/quorum_verbs.py."""

from functools import partial
from typing import TYPE_CHECKING, Any

from holdtight.base import refusals
from holdtight.base.clock import ttl_seconds
from holdtight.base.plan import Plan
from holdtight.base.values import LISTED, LockInfo
from holdtight.config.profiles import UNSET
from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.base.operations import AuditRecord, Finding
    from holdtight.config.settings import Settings
    from holdtight.core.force import Order
    from holdtight.core.listing import Listing, QuorumListing

__all__ = ["Verbs", "ttls_of", "verbs_of"]


class Verbs:
    """On one server."""

    def look(self, place: Place, prepared: Any, entered: dict[str, int], most: int = LISTED) -> Plan[LockInfo]:
        """`entered` maps our own owners to their number of entries."""
        from holdtight.core.inspect import look

        return look(place.store, prepared, entered, most)

    def listing(self, place: Place, pattern: str, entered: dict[str, int]) -> "Listing | QuorumListing":
        from holdtight.core.listing import Listing

        return Listing(place.survey, place.store, pattern, entered)

    def force(self, place: Place, prepared: Any, order: "Order", entered: dict[str, int]) -> "Plan[AuditRecord | None]":
        from holdtight.core.force import force
        from holdtight.core.inspect import glance

        return force(place.forcing, prepared, partial(glance, prepared), order, place.clock, place.store)

    def audit(self, place: Place, limit: int, name: str | None) -> "Plan[list[AuditRecord]]":
        from holdtight.core.force import audit

        return audit(place.forcing, limit, name)

    def doctor(self, place: Place, settings: "Settings") -> "Plan[list[Finding]]":
        from holdtight.core.doctor import Case, doctor

        if place.examining is None:
            return _nothing()
        forgets = place.display.startswith("embedded:")
        shortest, longest = ttls_of(settings)
        case = Case([place.display], [place.examining], shortest, longest, place.clock, forgets=forgets)
        return doctor(case._replace(around=place.look_around, acks=settings.acks))

    def bless(self, place: Place, about: dict[str, Any]) -> Plan[dict[str, str]]:
        raise refusals.nothing_to_bless()


def _nothing() -> "Plan[list[Finding]]":
    """A store in this process has no settings that could be wrong."""
    yield from ()
    return []


def ttls_of(settings: "Settings") -> tuple[float, float]:
    """The shortest and the longest ttl that the client and its profiles set."""
    given = [profile.ttl for _, profile in settings.profiles if profile.ttl is not UNSET]
    found = [settings.ttl, *(ttl_seconds(ttl, renewed=False) for ttl in given)]
    return min(found), max(found)


def verbs_of(place: Place) -> Verbs:
    if place.topology == "cluster":
        from holdtight.clients.cluster_verbs import ClusterVerbs

        return ClusterVerbs()
    if place.topology == "quorum":
        from holdtight.clients.quorum_verbs import QuorumVerbs

        return QuorumVerbs()
    return Verbs()
