"""What clients of a cluster do besides acquiring, blocking and asyncio."""

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from holdtight.base.plan import Plan
from holdtight.clients.verbs import Verbs
from holdtight.stores.boundary import Place
from holdtight.stores.redis.cluster import ClusterPlace

if TYPE_CHECKING:
    from holdtight.base.operations import AuditRecord, Finding
    from holdtight.config.settings import Settings
    from holdtight.core.force import Order

__all__ = ["ClusterVerbs"]


class ClusterVerbs(Verbs):
    def force(self, place: Place, prepared: Any, order: "Order", entered: dict[str, int]) -> "Plan[AuditRecord | None]":
        from holdtight.core.force import force

        forcing = cast(ClusterPlace, place).forcing_of(order.about["name"])
        return force(forcing, prepared, partial(self.look, place, prepared, entered), order, place.clock)

    def audit(self, place: Place, limit: int, name: str | None) -> "Plan[list[AuditRecord]]":
        from holdtight.core.force import audit_by_name

        return audit_by_name(place.survey, cast(ClusterPlace, place).forcing_of, limit, name)

    def doctor(self, place: Place, settings: "Settings") -> "Plan[list[Finding]]":
        from holdtight.clients.cluster_doctor import examine

        return examine(cast(ClusterPlace, place), settings)
