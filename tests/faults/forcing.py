"""What tests about releasing by force do again and again."""

from __future__ import annotations

from typing import Any

import pytest

from holdtight import AuditRecord, LossReason, NotOwner
from holdtight.grants.lease import BaseLease
from tests.faults.clients import Client

__all__ = ["audit", "force", "is_lost"]


def force(client: Client, name: str = "a", **options: Any) -> AuditRecord | None:
    found: AuditRecord | None = client.call(lambda: client.locks.force_release(name, **{"reason": "why", **options}))
    return found


def audit(client: Client) -> list[AuditRecord]:
    """Without the blessing of a quorum."""
    found: list[AuditRecord] = client.call(client.locks.audit)
    found = [record for record in found if record.action != "bless"]
    return found


def is_lost(client: Client, lease: BaseLease) -> None:
    """The lease was forced, and its holder learns it at the latest when it gives the lock back."""
    with pytest.raises(NotOwner):
        client.release(lease)
    assert lease.reason is LossReason.FORCED
