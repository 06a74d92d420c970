"""One client with its own clock, whose keeper and callback thread only record what they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdtight import Lease, Locks
from holdtight.base.runtime import Runtime
from holdtight.clients import loading
from holdtight.events import Event
from holdtight.grants.tenure import Tenure
from tests.unit.keeping import Still

OWNER = b"o" * 24


class World:
    """One client, its clock, and what was delivered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.delivered: list[Callable[[], object]] = []
        self.seen: list[Event] = []
        self.keeper = Still()
        runtime = Runtime(lambda: self.now, self.keeper, lambda function, *args: function(*args))
        monkeypatch.setattr(loading, "runtime_of", lambda settings: runtime)
        self.locks = Locks("redis://127.0.0.1:1", namespace="tenure")
        self.locks.client.lead = 0.0
        self.locks.events.subscribe(self.seen.append)

    def tenure(self, **options: Any) -> Tenure:
        lock = self.locks.lock("orders", **{"ttl": 10, **options})
        return Tenure(lock.terms, lock.prepared, self.delivered.append, OWNER, 7, self.now, 0)

    def lease(self, tenure: Tenure) -> Lease:
        return Lease(self.locks.lock("orders", ttl=10), tenure)
