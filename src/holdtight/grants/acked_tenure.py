"""A grant whose renewals count only once replicas have acknowledged them (`acks`)."""

from typing import Any

from holdtight.base.values import LossReason, Verdict
from holdtight.core.acks import shortfall
from holdtight.grants.tenure import Tenure

__all__ = ["AckedTenure"]


class AckedTenure(Tenure):
    def answered(self, reply: Any, sent: float) -> bool | None:
        verdict = self.prepared.read_renewal(reply, sent)
        if verdict is Verdict.RENEWED:
            return None
        if isinstance(verdict, LossReason):
            self.lose(verdict)
        else:
            self.unanswered(str(reply))
        return False

    def acknowledged(self, seen: int | str, sent: float) -> bool:
        cause = shortfall(seen, self.place.acks.needed)
        if cause:
            self.unanswered(cause)
            return False
        self.acks = int(seen)
        self.renewed(sent, self._asked or self.terms.ttl)
        return True
