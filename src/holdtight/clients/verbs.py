"""What clients do besides acquiring, by the topology of their place: see also clients/quorum_verbs.py."""

from typing import TYPE_CHECKING, Any

from holdtight.base import refusals
from holdtight.base.plan import Plan
from holdtight.base.values import LockInfo
from holdtight.stores.boundary import Place

if TYPE_CHECKING:
    from holdtight.base.records import AuditRecord
    from holdtight.core.force import Order
    from holdtight.core.listing import Listing, QuorumListing

__all__ = ["Verbs", "verbs_of"]


class Verbs:
    """On one server."""

    def look(self, place: Place, prepared: Any, entered: dict[str, int]) -> Plan[LockInfo]:
        """`entered` maps our own owners to their number of entries."""
        from holdtight.core.inspect import look

        return look(place.store, prepared, entered)

    def listing(self, place: Place, pattern: str, entered: dict[str, int]) -> "Listing | QuorumListing":
        from holdtight.core.listing import Listing

        return Listing(place.survey, place.store, pattern, entered)

    def force(self, place: Place, prepared: Any, order: "Order", entered: dict[str, int]) -> "Plan[AuditRecord | None]":
        from holdtight.core.force import force

        return force(place.forcing, prepared, self.look(place, prepared, entered), order, place.clock)

    def audit(self, place: Place, limit: int, name: str | None) -> "Plan[list[AuditRecord]]":
        from holdtight.core.force import audit

        return audit(place.forcing, limit, name)

    def bless(self, place: Place) -> Plan[dict[str, str]]:
        raise refusals.nothing_to_bless()


def verbs_of(place: Place) -> Verbs:
    if place.topology == "quorum":
        from holdtight.clients.quorum_verbs import QuorumVerbs

        return QuorumVerbs()
    return Verbs()
